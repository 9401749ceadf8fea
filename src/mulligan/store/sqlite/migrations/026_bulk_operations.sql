-- Code of earlier schemas goes on working with this: it carries out redrives, and leaves other operations to newer workers.

-- What is done to each job; `delay` is that of a snooze.
ALTER TABLE mulligan_operations ADD COLUMN verb TEXT NOT NULL DEFAULT 'retry';
ALTER TABLE mulligan_operations ADD COLUMN delay INTEGER NOT NULL DEFAULT 0;
-- Jobs that were deleted, when an owner is forgotten.
ALTER TABLE mulligan_operations ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
