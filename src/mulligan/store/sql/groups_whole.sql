-- `+ 0`: see groups_listed.sql.
SELECT own.*, whole.owners AS all_owners, {{group_state}} AS state, whole.decided_at AS decided_then, whole.decided_by AS decided_by_whom, whole.reason AS decided_why,
    whole.ignored_until AS until, whole.ignored_below AS below, whole.regressed_at AS back_at
FROM mulligan_groups AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
WHERE own.scope = :scope AND own.failures + 0 > 0
  AND own.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))
