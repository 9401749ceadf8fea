INSERT INTO mulligan_setup_tokens (digest, until)
VALUES (:digest, {{clock}} + :duration::bigint)
