WITH clock AS (
    SELECT {{clock}} AS now
), {{enqueue_stored}}
SELECT *
FROM stored
