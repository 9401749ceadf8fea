UPDATE mulligan_web_sessions
SET used_at = {{clock}}
WHERE session = :session
