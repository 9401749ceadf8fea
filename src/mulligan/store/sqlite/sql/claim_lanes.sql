-- Lanes to claim from, with the first job of each.
{{ready_lanes}}
SELECT queue, kind, service, priority, rank, id
FROM lane
