"""Running: claim → run → judge → settle, and the leases kept meanwhile."""
