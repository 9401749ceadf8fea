EXISTS (
            SELECT 1
            FROM mulligan_limits
            WHERE gate IN ('queue/' || queue, 'kind/' || kind)
               OR owner <> '' AND gate IN ('owner/' || owner, 'owner/*') AND most IS NOT NULL
        )
