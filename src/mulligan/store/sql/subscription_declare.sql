-- The definition in the code of a worker that starts. Secrets, and whether it is disabled, stay.
UPDATE mulligan_subscriptions
SET choice = :choice, channel = :channel, recipient = :recipient, digest = :digest, seen_at = {{clock}}
WHERE coalesce('/' || owner, '') = :scope AND name = :name AND is_in_code = :is_in_code
RETURNING *
