-- What there is to promote, without doing it: mostly nothing, and `promote.sql` costs as much as claiming fifty jobs.
-- Whether jobs are due or unblocked, whether a service is restricted, whether retries wait for the budget of a service,
-- jobs for their service, or jobs for a limit or the budget of an owner, and whether a new limit has not counted the
-- jobs admitted earlier.
--
-- Each look reads one entry of an index. EXISTS would read all waiting jobs once PostgreSQL knows that there are many, and
-- min() as long as it does not know.
SELECT {{promotable_columns}}
