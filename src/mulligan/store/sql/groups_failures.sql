SELECT failures
FROM mulligan_groups
WHERE id = :id AND scope = '' AND failures > 0
FOR UPDATE
