"""Duties: periodic pieces of upkeep, each with a name, an interval, a batch limit and a pause switch."""
