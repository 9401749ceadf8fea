coalesce(
            (
                SELECT 'limit/owner/' || owner
                FROM mulligan_limits
                WHERE owner <> '' AND gate IN ('owner/' || owner, 'owner/*') AND most IS NOT NULL
                LIMIT 1
            ),
            (SELECT 'limit/' || gate FROM mulligan_limits WHERE gate = 'queue/' || queue),
            (SELECT 'limit/' || gate FROM mulligan_limits WHERE gate = 'kind/' || kind)
        )
