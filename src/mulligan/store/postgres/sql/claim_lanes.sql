-- The lanes that a claim may take from. `most` is the grant of a restricted service; without grants, all lanes whose
-- services have to be asked.
{{ready_lanes}}, clock AS (
    SELECT {{clock}} AS now
), open_lane AS (
    SELECT lane.queue, lane.kind, lane.service, granted.number AS most
    FROM lane
    LEFT JOIN json_to_recordset(:grants::json) AS granted (service text, kind text, number integer)
        ON granted.service = lane.service AND (granted.kind IS NULL OR granted.kind = lane.kind)
    WHERE lane.kind = ANY (:kinds::text[])
      AND (:queues::text[] IS NULL OR lane.queue = ANY (:queues::text[]))
      AND NOT EXISTS (
          SELECT 1
          FROM mulligan_pauses AS pause, clock
          WHERE pause.what IN ('queue', 'kind', 'service')
            AND pause.name = CASE pause.what WHEN 'queue' THEN lane.queue WHEN 'kind' THEN lane.kind ELSE lane.service END
            AND (pause.until IS NULL OR pause.until > clock.now)
      )
      AND (:grants::json IS NULL OR granted.number > 0 OR granted.service IS NULL AND NOT EXISTS (
          SELECT 1
          FROM mulligan_services AS service
          WHERE service.name = lane.service AND service.is_restricted
      ))
)
