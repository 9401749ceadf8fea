-- All schedules, each with whether it is paused: read at every tick.
SELECT schedule.*, EXISTS (
    SELECT 1
    FROM mulligan_pauses AS pause
    WHERE pause.what = 'schedule' AND pause.name = schedule.name AND (pause.until IS NULL OR pause.until > {{clock}})
) AS is_paused
FROM mulligan_schedules AS schedule
ORDER BY schedule.name
