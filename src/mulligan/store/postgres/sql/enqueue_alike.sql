-- As `enqueue.sql`, for jobs without key and batch that differ only in id and arguments, which are most. The
-- caller says how `:ids` and `:arguments` are read, as one job or as many. Raises if an id exists already.
WITH gate AS (
    SELECT now, CASE
        WHEN :delay::bigint <> 0 THEN 'delay'
        WHEN :is_limited::boolean OR {{has_limit}} THEN 'limit'
    END AS waits_for
    FROM (
        SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now,
            :owner::text AS owner, :queue::text AS queue, :kind::text AS kind
    ) AS job
    WHERE NOT EXISTS (
        SELECT 1
        FROM mulligan_pauses AS pause
        WHERE pause.what = 'intake' AND pause.name = ANY (string_to_array(:intake, :separator))
          AND (pause.until IS NULL OR pause.until > job.now)
    )
), stored AS (
    INSERT INTO mulligan_jobs (
        id, kind, owner, queue, service, priority, rank, state, waiting_for, arguments,
        max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
        tags, cost, on_failed, on_cancelled, own_max_attempts, own_timeout
    )
    SELECT
        job.id, :kind::text, :owner::text, :queue::text, :service, :priority::integer, coalesce(:submitted_at::bigint, now),
        CASE WHEN waits_for IS NULL THEN 'queued' ELSE 'waiting' END, waits_for, job.arguments,
        :max_attempts::integer, :max_crashes::integer, :max_snoozes::integer, :timeout::bigint,
        coalesce(:submitted_at::bigint, now), now, CASE WHEN waits_for IS NULL THEN now END,
        now + :delay::bigint, now + :deadline::bigint, now,
        :tags, :cost::integer, :on_failed, :on_cancelled, :own_max_attempts::integer, :own_timeout::bigint
    FROM gate, {jobs} AS job (id, arguments)
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
    SELECT :event, job.id, :kind::text, :owner::text, 0, now, CASE waits_for WHEN 'limit' THEN '{{"waiting_for":"limit"}}' ELSE :data END
    FROM gate, {ids} AS job (id)
)
SELECT now, waits_for
FROM gate
