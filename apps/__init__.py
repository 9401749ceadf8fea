"""Four applications on mulligan, each complete: see README.md."""
