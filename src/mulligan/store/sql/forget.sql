-- Workers that died silently are shown for a while, then deleted. Their jobs are reclaimed separately.
DELETE FROM mulligan_workers
WHERE seen_at < {{clock}} - :silence
