"""General-purpose values: durations, sizes, time, checks, strings and files."""
