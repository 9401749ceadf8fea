INSERT INTO mulligan_web_sessions (session, key, begun_at, used_at)
VALUES (:session, :key, {{clock}}, {{clock}})
