tags::jsonb @> to_jsonb(ARRAY[:tag::text])
