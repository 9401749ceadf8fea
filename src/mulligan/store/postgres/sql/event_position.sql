-- The position of an event of the job `moved`: never before its last event, which may belong to a transaction with a
-- later id that committed while this one was open.
    greatest(
        pg_current_xact_id(),
        (SELECT told.xid FROM mulligan_events AS told WHERE told.job = moved.id ORDER BY told.seq DESC LIMIT 1)
    )
