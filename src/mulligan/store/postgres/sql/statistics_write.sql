INSERT INTO mulligan_statistics (
    span, at, kind, owner, service, outcome, code, attempt, is_other, number, seconds, cost, histogram
)
SELECT span, at, kind, owner, service, outcome, code, attempt, is_other, number, seconds, cost, histogram
FROM json_to_recordset(:rows::json) AS given (
    span bigint, at bigint, kind text, owner text, service text, outcome text, code text, attempt bigint,
    is_other boolean, number bigint, seconds double precision, cost bigint, histogram text
)
ON CONFLICT (span, at, kind, owner, service, outcome, code, attempt, is_other) DO UPDATE
SET number = excluded.number, seconds = excluded.seconds, cost = excluded.cost, histogram = excluded.histogram
