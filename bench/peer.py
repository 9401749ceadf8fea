"""What is asked of a peer. An adapter in `peers/` is a module with `adapt(entry)` and, unless the peer has a worker
command of its own, `work(entry)`, which runs one worker process until it is stopped."""

from typing import Protocol, runtime_checkable

SUCCEED, FAIL_TWICE = "succeed", "fail_twice"


class Peer(Protocol):
    async def create(self) -> None:
        """Make an empty store and a client of it."""
        ...

    async def close(self) -> None: ...

    async def enqueue(self, kind: str, number: int) -> None: ...

    async def has_jobs_left(self) -> bool:
        """Whether the store still holds a job that is not done."""
        ...

    def worker(self) -> list[str]:
        """The command of one worker process."""
        ...


@runtime_checkable
class Bulk(Protocol):
    """A peer that takes many jobs in one call."""

    async def enqueue_many(self, kind: str, numbers: range) -> None: ...


@runtime_checkable
class Preload(Protocol):
    """A peer without a bulk call that can be loaded faster than one by one. This is not measured."""

    async def preload(self, kind: str, jobs: int) -> None: ...


@runtime_checkable
class Blocking(Protocol):
    """A peer whose `enqueue` is for asyncio and that has another for other code."""

    def enqueue_blocking(self, kind: str, number: int) -> None: ...


@runtime_checkable
class Vacuum(Protocol):
    """A peer on PostgreSQL. Its tables are vacuumed and analysed after jobs were loaded."""

    async def vacuum(self) -> None: ...


@runtime_checkable
class Batches(Protocol):
    """A peer whose jobs can be members of a batch."""

    async def draft(self) -> None:
        """Jobs enqueued from now on belong to one batch."""
        ...

    async def publish(self) -> None: ...


@runtime_checkable
class Notifies(Protocol):
    """A peer that wakes workers by NOTIFY."""

    url: str
    channel: str


@runtime_checkable
class Later(Protocol):
    """A peer that takes jobs for a later time."""

    async def enqueue_later(self, numbers: range, *, seconds: float) -> None:
        """One call; each job is due the same number of seconds from now."""
        ...


@runtime_checkable
class Backlogs(Protocol):
    """A peer that can hold the backlogs that growth is measured with."""

    async def fill(self, backlog: str, jobs: int) -> None: ...


@runtime_checkable
class Owners(Protocol):
    """A peer with fair queues."""

    async def enqueue_owned(self, numbers: range, *, owners: int) -> None:
        """One call for jobs of a fair queue, each job of the next owner in turn."""
        ...


@runtime_checkable
class Waits(Protocol):
    """A peer whose jobs wait in a state of their own until they are due."""

    async def has_jobs_waiting(self) -> bool: ...


@runtime_checkable
class Serves(Protocol):
    """A peer that takes jobs over HTTP: `POST` of a kind and its arguments to `path`."""

    path: str

    def server(self, port: int) -> list[str]:
        """The command of one server process."""
        ...

    def tokens(self, clients: int) -> list[str]:
        """One bearer token for each client."""
        ...

    def reader(self) -> str:
        """A token that allows to read all jobs."""
        ...

    def count_jobs(self) -> int: ...


async def preload(peer: Peer, kind: str, jobs: int, *, call: int = 1_000) -> None:
    """Enqueue jobs in the fastest way that the peer has."""
    if isinstance(peer, Preload):
        await peer.preload(kind, jobs)
    elif isinstance(peer, Bulk):
        for first in range(0, jobs, call):
            await peer.enqueue_many(kind, range(first, min(jobs, first + call)))
    else:
        for number in range(jobs):
            await peer.enqueue(kind, number)
    await vacuum(peer)


async def vacuum(peer: Peer) -> None:
    if isinstance(peer, Vacuum):
        await peer.vacuum()
