batch.id, batch.name, batch.owner, batch.state, batch.generation, batch.succeeded, batch.failed, batch.cancelled,
    batch.success_at, batch.abort_above, batch.on_settled, batch.created_at, batch.published_at, batch.settled_at,
    batch.aborted_at, batch.expires_at, CASE WHEN batch.state = 'draft' THEN (
        SELECT count(*)
        FROM mulligan_jobs
        WHERE mulligan_jobs.batch = batch.id
    ) ELSE batch.total END AS total
