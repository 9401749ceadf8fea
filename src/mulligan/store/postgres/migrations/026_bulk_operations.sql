-- Code of earlier schemas goes on working with this, but carries out every operation as a retry: start bulk operations after the last old
-- worker has stopped.

-- What is done to each job; `delay` is that of a snooze.
ALTER TABLE mulligan_operations ADD COLUMN verb text NOT NULL DEFAULT 'retry';
ALTER TABLE mulligan_operations ADD COLUMN delay bigint NOT NULL DEFAULT 0;
-- Jobs that were deleted, when an owner is forgotten.
ALTER TABLE mulligan_operations ADD COLUMN purged bigint NOT NULL DEFAULT 0;
