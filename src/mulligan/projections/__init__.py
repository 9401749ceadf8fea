"""PURE: what events of the log add to failure groups and statistics. Values in, values out."""
