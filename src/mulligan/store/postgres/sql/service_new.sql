INSERT INTO mulligan_services (name, standing, epoch, is_restricted, ask_at, hold, is_failing, updated_at)
VALUES (:name, :standing, :epoch, :is_restricted, :ask_at, :hold, :is_failing, :now)
ON CONFLICT (name) DO NOTHING
