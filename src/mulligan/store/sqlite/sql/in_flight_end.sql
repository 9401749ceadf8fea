-- The row stays, for the time of the first request. Not a mark that expired and has another holder by now.
UPDATE mulligan_in_flight
SET until = 0, request = coalesce(mulligan_in_flight.request, json_extract(ended.value, '$.request'))
FROM json_each(:ended) AS ended
WHERE mark = json_extract(ended.value, '$.mark') AND holder = json_extract(ended.value, '$.id')
