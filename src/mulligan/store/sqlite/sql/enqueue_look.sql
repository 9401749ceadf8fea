-- Whether there is any limit or paused intake. Mostly there is none, and `enqueue_gate.sql` takes five times as long.
SELECT EXISTS (SELECT 1 FROM mulligan_limits) OR EXISTS (SELECT 1 FROM mulligan_pauses WHERE what = 'intake')
