-- Whoever writes here is alone.
{{job}}
