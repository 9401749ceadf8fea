SELECT counted.family, counted.number, newest.most
FROM (SELECT family, count(DISTINCT name) AS number, max(seq) AS last FROM mulligan_service_names GROUP BY family) AS counted
JOIN mulligan_service_names AS newest ON newest.seq = counted.last
ORDER BY counted.family
