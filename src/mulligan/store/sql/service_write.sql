INSERT INTO mulligan_services (name, standing, epoch, is_restricted, ask_at, hold, is_failing, updated_at)
VALUES (:name, :standing, :epoch, :is_restricted, :ask_at, :hold, :is_failing, :now)
ON CONFLICT (name) DO UPDATE
SET standing = excluded.standing, epoch = excluded.epoch, is_restricted = excluded.is_restricted, ask_at = excluded.ask_at,
    hold = excluded.hold, is_failing = excluded.is_failing, updated_at = excluded.updated_at
