-- Of two callers at once only one gets it.
DELETE FROM mulligan_sign_in_links
WHERE digest = :digest
RETURNING key, until, {{clock}} AS now
