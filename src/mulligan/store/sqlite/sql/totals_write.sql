INSERT INTO mulligan_totals (name, labels, number, seconds, histogram, updated_at)
SELECT value ->> 'name', value ->> 'labels', value ->> 'number', value ->> 'seconds', value ->> 'histogram', {{clock}}
FROM json_each(:rows)
WHERE true
ON CONFLICT (name, labels) DO UPDATE
SET number = excluded.number, seconds = excluded.seconds, histogram = excluded.histogram,
    updated_at = excluded.updated_at
