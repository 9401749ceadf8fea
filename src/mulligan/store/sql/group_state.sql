CASE
    WHEN whole.decision = 'resolved' AND whole.regressed_at IS NULL THEN 'resolved'
    WHEN whole.decision = 'resolved' THEN 'regressed'
    -- What was ignored is to be seen again if its time has come, or if it has grown.
    WHEN whole.decision = 'ignored' AND coalesce(whole.ignored_until > :moment, true)
        AND coalesce(whole.failures < whole.ignored_below, true) THEN 'ignored'
    ELSE 'open'
END
