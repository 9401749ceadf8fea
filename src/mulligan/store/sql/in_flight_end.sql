-- The row stays, for the time of the first request. Not a mark that expired and has another holder by now.
UPDATE mulligan_in_flight
SET until = 0
WHERE mark = ANY (ARRAY(SELECT json_array_elements_text(:marks::json)))
  AND holder = ANY (ARRAY(SELECT json_array_elements_text(:holders::json)))
