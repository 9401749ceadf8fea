-- The place of an event about the job `moved`: never before what the log told of it last. That may be of a transaction with a
    -- later id, which came and was committed while this one was open.
    greatest(
        pg_current_xact_id(),
        (SELECT told.xid FROM mulligan_events AS told WHERE told.job = moved.id ORDER BY told.seq DESC LIMIT 1)
    )
