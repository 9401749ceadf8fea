SELECT count(*) AS number
FROM (
    SELECT 1
    FROM mulligan_groups AS own
    WHERE own.scope = :scope AND own.failures > 0 AND {conditions}
    LIMIT :most
) AS counted
