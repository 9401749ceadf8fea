"""The target of a change, as a hash for the audit: it tells whether two entries saw the same, and nothing else."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from mulligan.console.arguments import LARGEST_PAGE
from mulligan.errors import MulliganError
from mulligan.records.document import document_of
from mulligan.web.access.console import Console
from mulligan.web.route import Call, Route
from mulligan.web.visible import visible


def hash_target(route: Route, call: Call) -> str | None:
    """The hash of what the change is about, as it is now; None if its path names nothing that can be read.

    Each change answers with the document that is hashed here: without changes in between, the hash of its answer is
    that of the target before the next change.
    """
    for path, find in _TARGETS.items():
        if route.path.startswith(path):
            (name,) = call.request.path_params.values()
            # The change itself says that there is no such target.
            with suppress(MulliganError, StopIteration):
                found = visible(find(call.console, name), call.viewer)
                return hash_body(msgspec.json.encode(document_of(found)))
    return None


def hash_body(body: bytes | memoryview) -> str | None:
    return sha256(body).hexdigest() if body else None


def _named(records: Iterable[Any], name: str, *, by: str) -> Any:
    return next(record for record in records if getattr(record, by) == name)


_TARGETS: dict[str, Callable[[Console, str], Any]] = {
    "/jobs/{job_id}": lambda console, job: console.job(job),
    "/batches/{batch_id}": lambda console, batch: console.find_batch(batch),
    "/redrives/{redrive_id}": lambda console, redrive: console.redrive_status(redrive),
    "/services/{name:path}": lambda console, name: console.service(name).status,
    "/schedules/{name:path}": lambda console, name: _named(console.schedules(), name, by="name"),
    "/keys/{key_id}": lambda console, key: _named(console.keys(limit=LARGEST_PAGE), key, by="id"),
    "/subscriptions/{subscription_id}": lambda console, subscription: console.subscription(subscription),
    "/hooks/{hook_id}": lambda console, hook: _named(console.incoming_hooks(limit=LARGEST_PAGE), hook, by="id"),
    "/failures/{group}": lambda console, group: console.failure(group),
}
