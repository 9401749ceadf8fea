-- With the counts of earlier pages: there is one writer.
INSERT INTO mulligan_groups (
    id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, rank, owners, document,
    regressed_at
)
SELECT value ->> 'id', value ->> 'scope', value ->> 'kind', value ->> 'code', value ->> 'error_class', value ->> 'title',
    value ->> 'first_seen_at', value ->> 'last_seen_at', value ->> 'failures', value ->> 'cost', value ->> 'heat',
    value ->> 'rank', value ->> 'owners', value ->> 'document', value ->> 'regressed_at'
FROM json_each(:rows)
WHERE true
ON CONFLICT (id, scope) DO UPDATE
SET kind = excluded.kind, code = excluded.code, error_class = excluded.error_class, title = excluded.title,
    first_seen_at = excluded.first_seen_at, last_seen_at = excluded.last_seen_at, failures = excluded.failures,
    cost = excluded.cost, heat = excluded.heat, rank = excluded.rank, owners = excluded.owners, document = excluded.document,
    regressed_at = coalesce(mulligan_groups.regressed_at, excluded.regressed_at)
