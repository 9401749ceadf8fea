id = :id AND attempt = :attempt AND leased_by = :incarnation AND claim = :claim
  AND state = 'running'
  -- The lease as the reclaimer saw it: one that was extended since is alive, though the clock may have stepped beyond it.
  AND (:expired_at IS NULL OR lease_until = :expired_at AND :expired_at < :now)
  AND (:stuck_after IS NULL OR last_attempt_at + max(coalesce(timeout, 0), :stuck_after) < :now)
