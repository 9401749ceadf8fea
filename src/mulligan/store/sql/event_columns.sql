-- An event as it is read, with what the row of its job says.
event.type, event.job, event.kind, event.owner, event.attempt, event.at, event.actor, event.code, event.data,
    job.batch, job.queue, job.service, job.cost
