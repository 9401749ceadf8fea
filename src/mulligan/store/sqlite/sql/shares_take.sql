-- Each share advances from its last rank, or from V if that is higher: being idle gains nothing.
INSERT INTO mulligan_shares (queue, priority, owner, taken, rank)
SELECT turn.queue, turn.priority, json_extract(new.value, '$.owner'), json_extract(new.value, '$.taken'),
    turn.rank + json_extract(new.value, '$.taken')
FROM json_each(:shares) AS new
JOIN mulligan_turns AS turn
    ON turn.queue = json_extract(new.value, '$.queue') AND turn.priority = json_extract(new.value, '$.priority')
WHERE true
ON CONFLICT (queue, priority, owner) DO UPDATE
SET rank = max(mulligan_shares.rank + excluded.taken, excluded.rank), taken = excluded.taken
RETURNING queue, priority, owner, rank
