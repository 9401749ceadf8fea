job.id = o.id AND job.attempt = o.attempt AND job.leased_by = o.incarnation AND job.claim = o.claim
      AND job.state = 'running'
      AND (NOT o.reclaimed OR clock.now > CASE
          WHEN o.stuck_after IS NULL THEN job.lease_until
          ELSE job.last_attempt_at + greatest(coalesce(job.timeout, 0), o.stuck_after)
      END)
