INSERT INTO mulligan_statistics (
    span, at, kind, owner, service, outcome, code, attempt, is_other, number, seconds, cost, histogram
)
SELECT value ->> 'span', value ->> 'at', value ->> 'kind', value ->> 'owner', value ->> 'service', value ->> 'outcome',
    value ->> 'code', value ->> 'attempt', value ->> 'is_other', value ->> 'number', value ->> 'seconds',
    value ->> 'cost', value ->> 'histogram'
FROM json_each(:rows)
WHERE true
ON CONFLICT (span, at, kind, owner, service, outcome, code, attempt, is_other) DO UPDATE
SET number = excluded.number, seconds = excluded.seconds, cost = excluded.cost, histogram = excluded.histogram
