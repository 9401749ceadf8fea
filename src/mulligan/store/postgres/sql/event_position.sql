-- The position of an event of the job `moved`: never before its last event, which may belong to a transaction with a
-- later id that committed while this one was open.
    greatest(
        pg_current_xact_id(),
        (SELECT newest.xid FROM mulligan_events AS newest WHERE newest.job = moved.id ORDER BY newest.seq DESC LIMIT 1)
    )
