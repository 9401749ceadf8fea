INSERT INTO mulligan_sign_in_links (digest, key, until)
VALUES (:digest, :key, {{clock}} + :duration::bigint)
