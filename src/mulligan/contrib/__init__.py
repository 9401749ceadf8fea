"""Where mulligan meets frameworks. Nothing here is imported unless you name it."""
