"""Child processes of a worker: attempts that are isolated from it."""
