UPDATE mulligan_shares
SET rank = json_extract(ended.value, '$.rank')
FROM json_each(:shares) AS ended
WHERE queue = json_extract(ended.value, '$.queue')
  AND priority = json_extract(ended.value, '$.priority')
  AND owner = json_extract(ended.value, '$.owner')
