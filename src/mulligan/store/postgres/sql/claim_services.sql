-- The services that ready jobs of these kinds depend on.
{lanes}
SELECT DISTINCT service
FROM open_lane
WHERE service <> ''
