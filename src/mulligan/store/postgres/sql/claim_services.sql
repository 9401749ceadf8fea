-- The services that ready jobs of these kinds depend on.
{lanes}
SELECT DISTINCT service
FROM lane
WHERE service <> ''
