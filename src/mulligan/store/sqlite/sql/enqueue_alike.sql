-- As `enqueue.sql`, for jobs without key and batch that differ only in id and arguments: `:jobs` has the arguments by id.
-- One statement for all of them: to open the table and its indexes costs more than to write a row.
INSERT INTO mulligan_jobs (
    id, arguments, kind, owner, queue, service, priority, rank, state, waiting_for,
    max_attempts, max_crashes, max_snoozes, timeout, submitted_at, enqueued_at, queued_at, due_at, deadline, updated_at,
    tags, cost, on_failed, on_cancelled, own_max_attempts, own_timeout
)
SELECT key, value, :kind, :owner, :queue, :service, :priority, :rank, :state, :waiting_for,
    :max_attempts, :max_crashes, :max_snoozes, :timeout, :submitted_at, :enqueued_at, :queued_at, :due_at, :deadline, :updated_at,
    :tags, :cost, :on_failed, :on_cancelled, :own_max_attempts, :own_timeout
FROM json_each(:jobs)
