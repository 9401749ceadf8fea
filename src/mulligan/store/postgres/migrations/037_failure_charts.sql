-- Code of earlier schemas goes on working with this.

-- Groups about which a person has decided.
CREATE INDEX mulligan_groups_decided ON mulligan_groups (scope, decision) WHERE decision <> 'open';

-- What failed and what recovered, for charts: it reads no row of a job that succeeded at once.
CREATE INDEX mulligan_statistics_failures
ON mulligan_statistics (span, at, outcome, owner, kind, code, number)
WHERE outcome IN ('retried', 'failed', 'recovered');
