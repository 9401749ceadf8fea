"""The records that are stored and shown, one subject per file, without any I/O."""
