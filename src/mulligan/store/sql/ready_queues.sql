-- Queues that hold ready jobs.
{{ready_lanes}}
SELECT DISTINCT queue
FROM lane
