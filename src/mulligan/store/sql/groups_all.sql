mulligan_groups AS own
JOIN mulligan_groups AS whole ON whole.id = own.id AND whole.scope = ''
