id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim
  AND state = 'running'
  AND (NOT :reclaimed OR iif(:stuck_after IS NULL, lease_until, last_attempt_at + max(coalesce(timeout, 0), :stuck_after)) < :now)
