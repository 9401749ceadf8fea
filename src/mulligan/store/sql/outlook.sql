-- One query for an idle worker: what there is to promote and to run, what its duties have to do, when the next job
-- becomes due or misses its deadline, a settled batch expires or a pause ends, and when the next schedule ticks.
SELECT {{promotable_columns}},
    {{busy}} AS is_busy,
    {{duty_columns}},
    {{moments}}
