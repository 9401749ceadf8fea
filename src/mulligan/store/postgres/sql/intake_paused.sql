-- The pauses that refuse jobs of these kinds and queues.
SELECT *, {{clock}} AS now
FROM mulligan_pauses
WHERE what = 'intake' AND name = ANY (ARRAY(SELECT json_array_elements_text(:intake::json)))
  AND (until IS NULL OR until > {{clock}})
ORDER BY name
