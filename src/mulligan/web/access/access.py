"""Access by keys: who calls, what the key allows, how often, and what is recorded of a change."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TypeVar

from starlette.requests import Request

from mulligan.app import App
from mulligan.errors import KeyRefused, MulliganError
from mulligan.failure.redact import sanitize
from mulligan.records.admission import (
    Admission,
    AdmissionRequest,
    Admitted,
    EndedRequest,
    InFlight,
    NewAuditEntry,
    RateExceeded,
)
from mulligan.records.key import Key, Scope
from mulligan.records.rate import TokenBucket
from mulligan.settings import Settings
from mulligan.web.access.admissions import Admissions
from mulligan.web.access.authentication import Authentication, read_bearer
from mulligan.web.access.caller import ANONYMOUS, SCRAPER, Caller
from mulligan.web.access.idempotency import Repeatable, read_request_id
from mulligan.web.access.status import status_of
from mulligan.web.access.terms import KeylessTerms, Terms, WithoutKey
from mulligan.web.problems import Problem, lacks_scope

T = TypeVar("T")

logger = logging.getLogger("mulligan.web")

# How often the time of a key's last use is stored, at most.
NOTED_EVERY = 60.0
LONGEST_TARGET = 200
BAD_REQUEST = 400
# In the microseconds of a bucket.
SECOND = 1_000_000
# The action of a request that shows the secrets of a job, or of a list of jobs.
REVEAL = "reveal"
UNKNOWN_ADDRESS = "unknown"
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
# Addresses and keys that are remembered here.
MOST_REMEMBERED = 10_000


class KeyAccess:
    """The access of one server. Servers on one database share rates, marks and the audit."""

    def __init__(self, app: App) -> None:
        self._settings: Callable[[], Settings] = lambda: app.settings
        self._clock = app.wiring.clock
        self._ids = app.wiring.new_id
        self._admissions = Admissions(lambda: app.store)
        self._authentication = Authentication(app.find_key, self._clock)
        self._blocked: dict[str, float] = {}
        self._questions: dict[str, tuple[float, float]] = {}
        """What is left of the questions of an address that is blocked, and since when."""
        self._noted: dict[str, float] = {}
        self._ends: set[asyncio.Future[None]] = set()

    async def identify(self, request: Request) -> Caller:
        """Raises a Problem: 401, or 429 for an address with too many failures."""
        try:
            token = read_bearer(request)
            if not self._authentication.knows(token):
                self.check_address(request)
            key = await self._authentication.find(token)
        except KeyRefused as refused:
            await self.charge_failure(request)
            raise Problem(401, "UNAUTHORIZED", str(refused), headers={"WWW-Authenticate": "Bearer"}) from None
        return to_caller(key)

    def find_keyless(self, route: KeylessTerms, request: Request) -> Caller | None:
        """As whom a request without a key is answered; None: it needs one."""
        match route.without_key:
            case WithoutKey.ANYONE:
                return ANONYMOUS
            case WithoutKey.SCRAPERS if self._is_scraper(request):
                return SCRAPER
        return None

    def _is_scraper(self, request: Request) -> bool:
        """Whether its address is in the settings. Behind a proxy, every request may have the address of the proxy."""
        address = client_address(request)
        if address == UNKNOWN_ADDRESS or any(name in request.headers for name in FORWARDED):
            return False
        return any(ip_address(address) in ip_network(network) for network in self._settings().metrics_networks)

    def check_address(self, request: Request) -> None:
        """Before the store is asked about a token that was not known to be valid: behind an address that is blocked
        there may be other clients, so it may ask as often as it may fail. Raises a Problem, 429."""
        subject, now = f"ip/{client_network(request)}", self._clock().monotonic()
        until = self._blocked.get(subject, now)
        if until > now and not self._takes_question(subject, now):
            raise _too_many(timedelta(seconds=until - now))

    def _takes_question(self, subject: str, now: float) -> bool:
        rate = self._settings().failed_request_rate
        left, since = self._questions.get(subject, (rate.burst, now))
        bucket = TokenBucket(rate.per_second, rate.burst, left).after(round((now - since) * SECOND))
        is_left = bucket.has(1)
        _remember(self._questions, subject, (bucket.without(1).tokens if is_left else bucket.tokens, now))
        return is_left

    async def charge_failure(self, request: Request) -> None:
        """Count a failed authentication. Raises a Problem, 429, if the address has had too many."""
        subject = f"ip/{client_network(request)}"
        now = self._clock().monotonic()
        # An address that is blocked costs the store nothing.
        if (until := self._blocked.get(subject, now)) > now:
            raise _too_many(timedelta(seconds=until - now))
        answer = await self._admissions.admit(
            AdmissionRequest(subject=subject, rate=self._settings().failed_request_rate)
        )
        if isinstance(answer, RateExceeded):
            _remember(self._blocked, subject, now + answer.retry_after.total_seconds())
            raise _too_many(answer.retry_after)

    @asynccontextmanager
    async def admit(
        self, caller: Caller, route: Terms, request: Request, *, name: str | None = None, reveals: bool = False
    ) -> AsyncIterator[Repeatable | None]:
        """`name` is the client's own name of a change, if it is not in the header. With `reveals`, the secrets in
        arguments and results are shown, which is recorded like a change. Raises a Problem: 403, 409, 429."""
        refusal = _refusal(caller, route, reveals=reveals)
        is_change = route.is_change and refusal is None
        request_id = read_request_id(request, caller, name) if is_change else None
        change = self._entry(caller, route, request, request_id) if is_change else None
        if reveals and refusal is None:
            change = self._reveal_entry(caller, route, request)
        wanted = AdmissionRequest(
            subject=f"key/{caller.key}",
            rate=self._settings().request_rate,
            change=change,
            is_marked=request_id is not None,
            used_key=self._find_used(caller.key),
        )
        admitted = _check(await self._wait(wanted))
        if refusal is not None:
            raise refusal
        if change is None:
            yield None
            return
        try:
            yield _to_repeatable(request_id, admitted)
        except Exception as error:
            await self._end(change, request_id, status_of(error), request)
            raise
        # A request that is cancelled has no end: its handler may still be at work.
        await self._end(change, request_id, route.status, request)

    async def _wait(self, wanted: AdmissionRequest) -> Admission:
        try:
            return await self._admissions.admit(wanted)
        except asyncio.CancelledError:
            # Nothing was begun: the mark must not hold for its whole time.
            if wanted.change is not None:
                ended = EndedRequest(wanted.change.id, wanted.mark, None)
                self._ends.add(task := asyncio.ensure_future(self._admissions.withdraw(ended)))
                task.add_done_callback(self._ends.discard)
            raise

    async def _end(self, change: NewAuditEntry, mark: str | None, status: int, request: Request) -> None:
        target, before, after = (getattr(request.state, name, None) for name in ("target", "before", "after"))
        ended = EndedRequest(
            change.id,
            mark,
            status,
            None if target is None else _bounded(target),
            before,
            after,
            getattr(request.state, "digest", None) if status < BAD_REQUEST else None,
        )
        try:
            await self._admissions.end(ended)
        except MulliganError as error:
            # The change is made: its answer must not be lost.
            logger.warning("the end of %s was not recorded in the audit: %s", change.action, error)

    def _entry(self, caller: Caller, route: Terms, request: Request, request_id: str | None) -> NewAuditEntry:
        target = " ".join(str(part) for part in request.path_params.values())
        return NewAuditEntry(
            id=self._ids(),
            actor=caller.actor,
            action=f"{route.method} {route.path}",
            target=_bounded(target) or None,
            key=caller.key,
            owner=caller.owner,
            request_id=request_id,
            ip=client_address(request),
        )

    def _reveal_entry(self, caller: Caller, route: Terms, request: Request) -> NewAuditEntry:
        """Its target is the job, or the list with its filter."""
        entry = self._entry(caller, route, request, None)
        return replace(entry, action=REVEAL, target=entry.target or _bounded(f"{route.path}?{request.url.query}"))

    def _find_used(self, key: str) -> str | None:
        """The key, if the time of its last use may be out of date."""
        now = self._clock().monotonic()
        if now - self._noted.get(key, -math.inf) < NOTED_EVERY:
            return None
        _remember(self._noted, key, now)
        return key

    def close(self) -> None:
        self._admissions.close()
        self._authentication.close()


def to_caller(key: Key) -> Caller:
    return Caller(
        key=key.id,
        owner=key.owner,
        actor=f"{key.name} (key {key.id})",
        scopes=frozenset(key.scopes),
        expires_at=key.expires_at,
    )


def _refusal(caller: Caller, route: Terms, *, reveals: bool) -> Problem | None:
    if route.is_admin and not caller.is_admin:
        return Problem(403, "FORBIDDEN", "only an administrator's key allows this")
    for scope in (route.scope, Scope.ARGS_REVEAL if reveals else None):
        if scope is not None and scope not in caller.scopes:
            return lacks_scope(scope)
    return None


def _to_repeatable(request_id: str | None, admitted: Admitted) -> Repeatable | None:
    if request_id is None or admitted.first_at is None:
        return None
    return Repeatable(request_id, admitted.first_at, admitted.request)


def _check(admission: Admission) -> Admitted:
    match admission:
        case Admitted():
            return admission
        case RateExceeded():
            raise _too_many(admission.retry_after)
        case InFlight():
            message = "a request with this Idempotency-Key is still being carried out"
            raise Problem(409, "REQUEST_IN_FLIGHT", message, headers={"Retry-After": "1"})


def _too_many(wait: timedelta) -> Problem:
    seconds = max(1, math.ceil(wait.total_seconds()))
    message = f"too many requests: try again in {seconds} s"
    return Problem(429, "RATE_LIMITED", message, headers={"Retry-After": str(seconds)})


def client_address(request: Request) -> str:
    return _read_address(request.client.host if request.client is not None else "")


@lru_cache(MOST_REMEMBERED)
def _read_address(given: str) -> str:
    """The address of the client. What a proxy names may be any text."""
    try:
        address = ip_address(given.partition("%")[0])
    except ValueError:
        return UNKNOWN_ADDRESS
    return str(getattr(address, "ipv4_mapped", None) or address)


def client_network(request: Request) -> str:
    """The part of the client's address that one client cannot change at will."""
    address = client_address(request)
    return str(ip_network(f"{address}/64", strict=False)) if ":" in address else address


def _bounded(text: str) -> str:
    return sanitize(text, LONGEST_TARGET)


def _remember(known: dict[str, T], name: str, value: T) -> None:
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    known[name] = value
