-- One page of the groups of a scope. Each order has an index; `+ 0` keeps SQLite from reading all groups by their failures.
SELECT own.id
FROM mulligan_groups AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
WHERE own.scope = :scope AND own.failures + 0 > 0 AND {conditions}
  AND {{group_state}} = ANY (ARRAY(SELECT json_array_elements_text(:states::json)))
ORDER BY own.{order} DESC, own.id
LIMIT :limit OFFSET :skip
