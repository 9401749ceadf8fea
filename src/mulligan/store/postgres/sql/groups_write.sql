-- With the counts of earlier pages: the cursor of the projection is locked, so no other process writes here.
INSERT INTO mulligan_groups (
    id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, rank, owners, document,
    regressed_at
)
SELECT id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, rank, owners, document,
    regressed_at
FROM json_to_recordset(:rows::json) AS given (
    id text, scope text, kind text, code text, error_class text, title text, first_seen_at bigint, last_seen_at bigint,
    failures bigint, cost bigint, heat double precision, rank double precision, owners bigint, document text, regressed_at bigint
)
ON CONFLICT (id, scope) DO UPDATE
SET kind = excluded.kind, code = excluded.code, error_class = excluded.error_class, title = excluded.title,
    first_seen_at = excluded.first_seen_at, last_seen_at = excluded.last_seen_at, failures = excluded.failures,
    cost = excluded.cost, heat = excluded.heat, rank = excluded.rank, owners = excluded.owners, document = excluded.document,
    regressed_at = coalesce(mulligan_groups.regressed_at, excluded.regressed_at)
