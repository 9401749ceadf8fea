-- What a claim would find: what there is to promote, the first two lanes it may take from, whether it is repeated because
-- its reply was lost, and when the next job becomes due. Most claims of a worker with little to do end here.
{{ready_lanes}}
SELECT {{promotable_columns}},
    ARRAY(
        SELECT ARRAY[queue, kind, service]
        FROM lane
        -- In subqueries, so that no plan depends on the values: planning takes six times as long as the rest.
        WHERE kind = ANY ((SELECT :kinds::text[])::text[])
          AND ((SELECT :queues::text[]) IS NULL OR queue = ANY ((SELECT :queues::text[])::text[]))
          AND NOT EXISTS (
              SELECT 1
              FROM mulligan_pauses AS pause
              WHERE pause.what IN ('queue', 'kind', 'service')
                AND pause.name = CASE pause.what WHEN 'queue' THEN lane.queue WHEN 'kind' THEN lane.kind ELSE lane.service END
                AND (pause.until IS NULL OR pause.until > {{clock}})
          )
        LIMIT 2
    ) AS lanes,
    (
        SELECT claim
        FROM mulligan_jobs
        WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim
        ORDER BY leased_by, claim
        LIMIT 1
    ) IS NOT NULL AS is_repeated,
    {{first_due}} AS due,
    {{clock}} AS now
