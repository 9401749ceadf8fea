"""Values without a subject of their own: durations, sizes, time, strings and files."""
