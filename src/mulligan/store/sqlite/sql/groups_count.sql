UPDATE mulligan_groups
SET jobs = jobs + (given.value ->> 'jobs'), failed = failed + (given.value ->> 'failed'),
    recovered = recovered + (given.value ->> 'recovered')
FROM json_each(:rows) AS given
WHERE mulligan_groups.id = given.value ->> 'id' AND mulligan_groups.scope = given.value ->> 'scope'
