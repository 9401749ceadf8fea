CASE
    WHEN whole.decision = 'resolved' AND whole.regressed_at IS NULL THEN 'resolved'
    WHEN whole.decision = 'resolved' THEN 'regressed'
    -- What was ignored is open again when its time has come, or when it has grown.
    WHEN whole.decision = 'ignored' AND coalesce(whole.ignored_until > {{clock}}, true)
        AND coalesce(whole.failures < whole.ignored_below, true) THEN 'ignored'
    ELSE 'open'
END
