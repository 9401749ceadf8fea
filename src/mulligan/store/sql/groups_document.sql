UPDATE mulligan_groups
SET document = :document
WHERE id = :id AND scope = ''
