"""Duties: periodic upkeep. Each duty has a name, an interval, a batch limit and a pause switch."""
