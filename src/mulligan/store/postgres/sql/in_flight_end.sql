-- The row stays, for the time of the first request. Not a mark that expired and has another holder by now. The marks are
-- given twice: alone, `known.mark = ended.mark` may be planned as a join with all marks.
UPDATE mulligan_in_flight AS known
SET until = 0, request = coalesce(known.request, ended.request)
FROM json_to_recordset(:ended::json) AS ended (id text, mark text, request text)
WHERE known.mark = ended.mark AND known.holder = ended.id
  AND known.mark = ANY (ARRAY(SELECT value ->> 'mark' FROM json_array_elements(:ended::json)))
