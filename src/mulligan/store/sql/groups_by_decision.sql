-- Groups about which a person has decided: few. SQLite reads the tables of a CROSS JOIN in this order.
(SELECT * FROM mulligan_groups WHERE scope = '' AND decision <> 'open') AS whole
CROSS JOIN mulligan_groups AS own
