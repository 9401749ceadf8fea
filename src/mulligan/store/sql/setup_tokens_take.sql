-- All of them: of two callers at once only one gets any.
DELETE FROM mulligan_setup_tokens
RETURNING digest, until, {{clock}} AS now
