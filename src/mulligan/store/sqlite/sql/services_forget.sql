-- Services of which there is nothing to know: one that comes again begins anew.
DELETE FROM mulligan_services
WHERE NOT is_restricted AND NOT is_failing AND updated_at < :now - :kept
