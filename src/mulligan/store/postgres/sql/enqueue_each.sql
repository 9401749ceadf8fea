-- As `enqueue.sql`, for jobs of several calls, which do not wait for each other: if another transaction is about to store
-- one of the ids, this raises. The records are made from what was passed.
WITH clock AS (
    SELECT {{clock}} AS now, set_config('lock_timeout', '100ms', true)
), {{enqueue_stored}}
SELECT id, enqueued_at, waiting_for
FROM stored
