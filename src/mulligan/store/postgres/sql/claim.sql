-- Two passes over the lanes. An unlocked merge of their first jobs gives the cut and how many each lane contributes.
-- Then each lane contributes them with SKIP LOCKED, not beyond the cut, or a second worker would take low jobs while
-- normal ones wait. A single lane needs no merge.
{lanes}, repeated AS (
    -- The rows of this call if it is repeated because its reply was lost.
    SELECT *
    FROM mulligan_jobs
    WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim
), single AS (
    SELECT *
    FROM open_lane
    WHERE (SELECT count(*) FROM open_lane) = 1 AND NOT EXISTS (SELECT 1 FROM repeated)
), few AS (
    SELECT ceil(:limit / sqrt(greatest(count(*), 1)))::integer AS number
    FROM open_lane
), fore AS (
    -- A few jobs of each lane, not as many as are wanted: with a thousand lanes that would be a thousand times too
    -- many.
    SELECT open_lane.queue, open_lane.kind, open_lane.service, open_lane.most, job.priority, job.rank, job.id
    FROM few
    CROSS JOIN open_lane
    CROSS JOIN LATERAL (
        SELECT priority, rank, id
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = open_lane.queue AND kind = open_lane.kind AND service = open_lane.service
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
        ORDER BY priority, rank, id
        LIMIT least(few.number, open_lane.most)
    ) AS job
    WHERE (SELECT count(*) FROM open_lane) > 1 AND NOT EXISTS (SELECT 1 FROM repeated)
), edge AS (
    -- The cut: no job beyond it is wanted.
    SELECT priority, rank, id
    FROM fore
    ORDER BY priority, rank, id
    OFFSET :limit - 1
    LIMIT 1
), deep AS (
    -- Lanes whose few jobs are all before the cut: more of them may be wanted.
    SELECT fore.queue, fore.kind, fore.service, fore.most
    FROM fore
    LEFT JOIN edge ON true
    WHERE edge.id IS NULL OR (fore.priority, fore.rank, fore.id) <= (edge.priority, edge.rank, edge.id)
    GROUP BY fore.queue, fore.kind, fore.service, fore.most
    HAVING count(*) = (SELECT number FROM few)
), head AS (
    SELECT queue, kind, service, priority, rank, id
    FROM (
        SELECT queue, kind, service, priority, rank, id
        FROM fore
        UNION ALL
        SELECT deep.queue, deep.kind, deep.service, job.priority, job.rank, job.id
        FROM deep
        CROSS JOIN LATERAL (
            SELECT priority, rank, id
            FROM mulligan_jobs
            WHERE state = 'queued' AND queue = deep.queue AND kind = deep.kind AND service = deep.service
              AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
            ORDER BY priority, rank, id
            OFFSET (SELECT number FROM few)
            LIMIT least(:limit, deep.most) - (SELECT number FROM few)
        ) AS job
    ) AS wanted
    ORDER BY priority, rank, id
    LIMIT :limit
), cut AS (
    (
        SELECT priority, rank, id
        FROM head
        ORDER BY priority DESC, rank DESC, id DESC
        LIMIT 1
    )
    UNION ALL
    SELECT 2147483647, 0, ''
    FROM single
), share AS (
    SELECT queue, kind, service, count(*) AS number
    FROM head
    GROUP BY queue, kind, service
    UNION ALL
    SELECT queue, kind, service, least(:limit, most)
    FROM single
), picked AS (
    SELECT job.*, share.service
    FROM share
    CROSS JOIN cut
    CROSS JOIN LATERAL (
        SELECT ctid AS spot, id, priority, rank
        FROM mulligan_jobs
        WHERE state = 'queued' AND queue = share.queue AND kind = share.kind AND service = share.service
          AND (priority, rank, id) <= (cut.priority, cut.rank, cut.id)
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
        ORDER BY priority, rank, id
        LIMIT share.number
        FOR UPDATE SKIP LOCKED
    ) AS job
), granted AS (
    -- A service may have several lanes: together they contribute no more than what is granted.
    SELECT placed.spot
    FROM (
        SELECT picked.spot, picked.service, row_number() OVER (PARTITION BY service ORDER BY priority, rank, id) AS place
        FROM picked
    ) AS placed
    LEFT JOIN (SELECT service, min(most) AS most FROM open_lane GROUP BY service) AS allowed ON allowed.service = placed.service
    WHERE allowed.most IS NULL OR placed.place <= allowed.most
), {{lease_picked}}
SELECT {columns}
FROM claimed AS mulligan_jobs
UNION ALL
SELECT {columns}
FROM repeated AS mulligan_jobs
