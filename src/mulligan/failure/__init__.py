"""What went wrong and what to do about it: pure functions from values to values."""
