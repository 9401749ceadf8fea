UPDATE mulligan_groups
SET jobs = mulligan_groups.jobs + given.jobs, failed = mulligan_groups.failed + given.failed,
    recovered = mulligan_groups.recovered + given.recovered
FROM json_to_recordset(:rows::json) AS given (id text, scope text, jobs bigint, failed bigint, recovered bigint)
WHERE mulligan_groups.id = given.id AND mulligan_groups.scope = given.scope
