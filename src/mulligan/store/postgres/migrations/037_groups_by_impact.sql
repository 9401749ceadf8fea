-- Code of earlier schemas goes on working with this: a group that it writes is out of order until it is seen again.

-- The binary logarithm of the impact of a group, up to a constant: the impacts of all groups halve alike, so their order
-- does not depend on the time.
ALTER TABLE mulligan_groups ADD COLUMN impact_rank double precision NOT NULL DEFAULT 0;
UPDATE mulligan_groups
SET impact_rank = ln(heat) / ln(2) + last_seen_at / 86400000000.0
    + CASE WHEN scope = '' AND owners > 1 THEN ln(1 + ln(owners) / ln(2)) / ln(2) ELSE 0 END
WHERE heat > 0;
CREATE INDEX mulligan_groups_impact ON mulligan_groups (scope, impact_rank DESC, id) WHERE failures > 0;
-- Groups about which a person has decided.
CREATE INDEX mulligan_groups_decided ON mulligan_groups (scope, decision) WHERE decision <> 'open';

-- What failed and what recovered, for charts: it reads no row of a job that succeeded at once.
CREATE INDEX mulligan_statistics_failures
ON mulligan_statistics (span, at, outcome, owner, kind, code, number)
WHERE outcome IN ('retried', 'failed', 'recovered');
