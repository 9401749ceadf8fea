-- There is only one writer.
SELECT 1
