SELECT mulligan_keys.*, begun_at, used_at, {{clock}} AS now
FROM mulligan_web_sessions
JOIN mulligan_keys ON id = key
WHERE session = :session
