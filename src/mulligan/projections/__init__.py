"""PURE: what events of the log add to failure groups, statistics and metrics. Values in, values out."""
