"""Verify the runs of a leaderboard by replaying them."""
