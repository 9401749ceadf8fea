INSERT INTO mulligan_totals (name, labels, number, seconds, histogram, updated_at)
SELECT name, labels, number, seconds, histogram, {{clock}}
FROM json_to_recordset(:rows::json) AS given (
    name text, labels text, number bigint, seconds double precision, histogram text
)
ON CONFLICT (name, labels) DO UPDATE
SET number = excluded.number, seconds = excluded.seconds, histogram = excluded.histogram,
    updated_at = excluded.updated_at
