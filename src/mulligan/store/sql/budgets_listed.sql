SELECT gate, per_day, per_month, cost, over
FROM mulligan_limits
WHERE over IS NOT NULL AND gate <> 'owner/*'
ORDER BY gate
LIMIT 1000
