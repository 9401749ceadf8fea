SELECT (SELECT min(due_at) FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NULL) AS due, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
