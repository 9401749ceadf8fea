admits
