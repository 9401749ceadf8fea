"""What runs in the worker processes: one file each, and none imports another's library."""
