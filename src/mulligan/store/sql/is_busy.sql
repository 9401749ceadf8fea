-- Jobs blocked by a pause, a draft or an open service do not count. `lane` names the queue, kind and service of a job.
SELECT {{busy}} AS is_busy
