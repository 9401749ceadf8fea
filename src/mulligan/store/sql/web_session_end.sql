DELETE FROM mulligan_web_sessions
WHERE session = :session
RETURNING key
