-- The rows for all owners of the groups that this owner has failures in.
SELECT whole.id, whole.document
FROM mulligan_groups AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
WHERE own.scope = '/' || :owner::text
