DELETE FROM mulligan_spending
WHERE period < :before
