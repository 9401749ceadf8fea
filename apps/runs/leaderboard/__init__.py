"""A leaderboard to verify: an HTTP server with runs, replays and faults on demand."""
