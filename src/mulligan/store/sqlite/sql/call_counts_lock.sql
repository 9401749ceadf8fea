-- There is only one writer.
SELECT :worker
