"""`make bench`: mulligan beside other job queues, in one run on one machine. README.md says how."""
