-- Workers that died without a word are shown for a while, then forgotten. Their jobs are another matter.
DELETE FROM mulligan_workers
WHERE seen_at < {{clock}} - :silence
