EXISTS (
        SELECT 1
        FROM mulligan_pauses AS pause
        WHERE pause.what IN ('queue', 'kind', 'service')
          AND pause.name = CASE pause.what WHEN 'queue' THEN lane.queue WHEN 'kind' THEN lane.kind ELSE lane.service END
          AND (pause.until IS NULL OR pause.until > {{clock}})
    ) OR EXISTS (
        SELECT 1
        FROM mulligan_services AS service
        WHERE service.name = lane.service AND service.is_restricted
          AND service.ask_at > {{clock}} AND service.ask_at - service.hold <= {{clock}}
    )
