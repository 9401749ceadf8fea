-- How many of the groups about which a person has decided are in each state.
SELECT {{group_state}} AS state, count(*) AS number
FROM {source}
WHERE own.scope = :scope AND own.failures > 0 AND {conditions}
GROUP BY 1
