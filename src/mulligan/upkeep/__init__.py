"""Duties: periodic pieces of upkeep, each with a name and an interval."""
