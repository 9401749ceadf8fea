"""What is stored and shown: one record a file, without any I/O."""
