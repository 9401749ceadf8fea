-- Queues with ready jobs.
{{ready_lanes}}
SELECT DISTINCT queue
FROM lane
