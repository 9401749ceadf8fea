job.id = o.id AND job.attempt = o.attempt AND job.leased_by = o.incarnation AND job.claim = o.claim
      AND job.state = 'running'
      -- The lease as the reclaimer saw it: one that was extended since is alive, though the clock may have stepped
      -- beyond it.
      AND (o.expired_at IS NULL OR job.lease_until = o.expired_at AND o.expired_at < clock.now)
      AND (o.stuck_after IS NULL OR job.last_attempt_at + greatest(coalesce(job.timeout, 0), o.stuck_after) < clock.now)
