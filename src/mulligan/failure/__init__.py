"""Classifies failures and decides about retries: pure functions from values to values."""
