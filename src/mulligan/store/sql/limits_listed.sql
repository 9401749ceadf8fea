SELECT gate, most
FROM mulligan_limits
WHERE most IS NOT NULL AND gate <> 'owner/*'
ORDER BY gate
LIMIT 1000
