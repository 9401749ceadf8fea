-- How many of the groups about which a person has decided are in each state.
SELECT {{group_state}} AS state, count(*) AS number
FROM mulligan_groups AS whole
JOIN mulligan_groups AS own ON own.id = whole.id AND own.scope = :scope
WHERE whole.scope = '' AND whole.decision <> 'open' AND own.failures > 0 AND {conditions}
GROUP BY 1
