-- Whether retries that are due may be promoted by the settle itself.
WITH clock AS (SELECT :now AS now)
SELECT {{retries_pass}} AS passes
