"""The rules that every store obeys, as tests: one module for each part of a job's life."""
