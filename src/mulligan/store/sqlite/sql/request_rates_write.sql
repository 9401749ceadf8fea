UPDATE mulligan_request_rates
SET remaining = json_extract(charge.value, '$.remaining'),
    at = json_extract(charge.value, '$.at'),
    full_at = json_extract(charge.value, '$.full_at')
FROM json_each(:charges) AS charge
WHERE subject = json_extract(charge.value, '$.subject')
