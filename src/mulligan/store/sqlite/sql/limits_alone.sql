-- One at a time lets jobs in through limits: here there is only one who writes.
SELECT 1 AS is_alone
