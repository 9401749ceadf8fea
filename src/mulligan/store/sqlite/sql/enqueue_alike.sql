-- As `enqueue.sql`, for a job without key and batch. Parameters by position, not by name: binding is the main cost.
INSERT INTO mulligan_jobs (
    id, arguments, kind, owner, queue, service, priority, rank, state, waiting_for,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    tags, cost, on_failed, on_cancelled, own_max_attempts, own_timeout
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
