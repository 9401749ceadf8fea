UPDATE mulligan_services
SET standing = :standing, epoch = :epoch, is_restricted = :is_restricted, ask_at = :ask_at, hold = :hold,
    is_failing = :is_failing, updated_at = :now
WHERE name = :name
