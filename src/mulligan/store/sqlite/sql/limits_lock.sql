-- One transaction at a time admits jobs under limits: there is only one writer.
SELECT 1 AS is_alone
