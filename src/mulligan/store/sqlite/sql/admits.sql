admits = 1
