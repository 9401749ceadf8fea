'probe/' || json_build_array(job.service, job.queue, job.kind)
