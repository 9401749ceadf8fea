-- There is only one writer.
{{job}}
