EXISTS (SELECT 1 FROM json_each(iif(json_valid(tags), tags, '[]')) WHERE value = :tag)
