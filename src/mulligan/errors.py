"""All errors that mulligan raises.

    MulliganError
    ├── ConfigurationError          the app, its settings or a policy is wrong; nothing was started
    │   ├── BadSetting              an environment variable or a key of the settings file
    │   ├── BadUrl                  a database URL
    │   ├── BadPolicy               a policy, a backoff, a window
    │   │   └── BadPolicies         a policies file; `mistakes` lists everything wrong in it
    │   ├── BadTask                 a task that cannot be registered
    │   ├── BadBatch                a batch's name, a fraction, or its `on_settled`
    │   ├── BadSchedule             a cron expression, a time zone, or the scheduled call
    │   ├── BadSubscription         a `Subscription(…)` of the code that cannot work
    │   ├── BadAlert                an `Alert(…)` of the code that cannot work
    │   ├── BadHook                 a hook that returns no context manager
    │   └── NoKeys                  the server may not listen beyond this machine: there is no key
    ├── Refused                     the job was not accepted; nothing was stored
    │   ├── InvalidArguments        the arguments do not fit the task's signature, or cannot be encoded as JSON
    │   ├── PayloadTooLarge
    │   ├── UnknownKind
    │   ├── BatchClosed             the batch was published and takes no more members
    │   ├── IntakePaused            a person paused the intake of such jobs; `until` and `reason`
    │   ├── SubmitRateExceeded      the owner submits too fast; `retry_after` is the time to wait
    │   ├── TooManyJobs             the owner has as many unfinished jobs as it may; `limit` and `live`
    │   └── BadConnection           the value of connection= cannot carry the job
    ├── BadArgument                 a value that the call does not accept
    │   ├── BadFilter               a field of a `JobFilter` with an invalid value
    │   ├── BadAlertTerm            a term of an alert rule that cannot work
    │   └── BadSubscriptionOption   an option of a subscription or a hook that cannot work
    ├── BadDuration                 not a duration; also a ValueError
    ├── BadRate                     not a rate; also a ValueError
    ├── AmbiguousId                 several ids begin or end with the given part
    ├── RedriveNotFound
    ├── JobNotFound
    ├── BatchNotFound
    ├── BatchExpired                the batch has expired: its members cannot be retried
    ├── GroupNotFound               no failure group has this id
    ├── KeyNotFound                 no key of the HTTP API has this id
    ├── KeyRefused                  the token is unknown, revoked or expired
    ├── KeyNotAllowed               a key may not be created with these scopes, or for this owner
    ├── KeyExists                   the request created a key already, whose token is not shown again
    ├── SetupRefused                the setup token is unknown, used or expired
    ├── LinkRefused                 the link is unknown, used or too old
    ├── SubscriptionNotFound
    ├── SubscriptionExists          the owner has a subscription of this name
    ├── SubscriptionNotAllowed      this caller may not make such a subscription or hook
    ├── TooManySubscriptions        the owner has as many subscriptions as it may
    ├── DeliveryNotFound
    ├── HookNotFound
    ├── HookExists                  the owner has a hook of this name
    ├── TooManyHooks                the owner has as many hooks as it may
    ├── HookCalledTooOften          `retry_after` is the time to wait
    ├── HookRefused                 a call of a hook has no valid signature, or is too old
    ├── UnknownDuty
    ├── UnknownCheck                the doctor has no check with this code
    ├── UnknownSchedule
    ├── UnknownService
    ├── UnknownQueue
    ├── UnknownIntake               neither a task nor a queue
    ├── UnknownProjection           no projection has a cursor of this name
    ├── ScheduleInUse               the schedule is still in the code of an app
    ├── IllegalMove                 the job's state does not allow the move
    │   ├── KeyInUse                the job is not over, so it keeps its dedupe key
    │   └── StillRunning            a worker runs the job, and it is not stuck
    ├── NotAllowed                  the task's own `can_retry` refused
    │   └── InsufficientCredits
    ├── Conflict                    another job holds the dedupe key or the id
    │   └── RequestMismatch         the request id belongs to another request
    │       └── RequestIdUsed       it belongs to a redrive with other jobs or options
    ├── JobFailed, JobCancelled     raised by `wait`
    ├── ResultExpired               raised by `wait`: the job succeeded, and its result was deleted
    ├── NoResult                    the job has not succeeded, so it has no result
    ├── LeaseLost                   another worker runs this job now
    ├── TargetRefused               a URL that a user chose may not be called
    ├── WebhookFailed               the receiver of a webhook did not accept it; `status`
    ├── BadSecret                   not a signing secret; also a ValueError
    ├── BadMail                     an address or an attachment that no mail can have; also a ValueError
    ├── BadProgram                  `attempt().run` cannot run the given program
    ├── ProgramFailed               the program reported a failure or was killed
    │   └── ProgramTimedOut         the program took too long; also a TimeoutError
    ├── LifespanFailed              the app's `lifespan` raised; the worker does not run
    ├── WorkerCancelled             a task cancelled the worker's own tasks on the event loop
    ├── WornOut                     half of the worker's slots are held by code that does not stop
    ├── StoreError
    │   ├── StoreUnavailable        try again later
    │   │   ├── StoreFull
    │   │   └── BatchBusy           an open transaction adds members to the batch
    │   ├── StoreClosed             `app.close()` was called
    │   ├── StoreReadOnly
    │   ├── TransactionEnded        the code of a projection committed or rolled back
    │   ├── UndeclaredProxy         a proxy pools transactions, and the URL does not declare it
    │   ├── StoreDamaged
    │   └── SchemaMismatch          the database is of a newer version, or must be migrated
    ├── ServerError                 a `Client` cannot reach its server, or the server refuses the key or the call
    ├── EventsMissed                a `Client` follows events, and some were deleted before it read them
    └── TaskError                   raised by a task that knows what went wrong
        ├── FinalError
        ├── RetryableError
        └── RateLimitedError

A task may also raise `Snooze`, which is not an error.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from signal import SIGKILL, Signals
from typing import ClassVar

from mulligan.lifecycle import Move, State, possible_verbs
from mulligan.values.check import not_allowed
from mulligan.values.duration import BadDuration as BadDuration
from mulligan.values.duration import Duration, describe, parse
from mulligan.values.error import MulliganError as MulliganError
from mulligan.values.suggest import unknown
from mulligan.values.text import with_detail


class ConfigurationError(MulliganError):
    pass


class BadSetting(ConfigurationError):
    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}")
        self.name = name
        self.value = value


class BadUrl(ConfigurationError):
    def __init__(self, url: object, problem: str) -> None:
        super().__init__(
            f"{without_password(url)!r} is not a usable database URL: {problem}; "
            "use 'sqlite:///jobs.db' for a relative path, 'sqlite:////var/lib/app/jobs.db' for an absolute path, "
            "or 'postgresql://user@host/database'"
        )


class BadPolicy(ConfigurationError):
    """`problem` is the message without the name of the field."""

    def __init__(self, message: str, problem: str | None = None) -> None:
        super().__init__(message)
        self.problem = problem or f"is not possible: {message}"


class BadPolicies(BadPolicy):
    """Each mistake names its path in the file and what is possible."""

    def __init__(self, file: str, mistakes: Sequence[str]) -> None:
        more = f" (and {len(mistakes) - 1} more; see: mulligan policies check {file})" if len(mistakes) > 1 else ""
        super().__init__(f"{file}: {mistakes[0]}{more}")
        self.file, self.mistakes = file, tuple(mistakes)


class BadTask(ConfigurationError):
    pass


class BadSubscription(ConfigurationError):
    """A `Subscription(…)` of the code that cannot work."""


class BadAlert(ConfigurationError):
    """An `Alert(…)` of the code that cannot work."""


class BadSchedule(ConfigurationError):
    pass


class BadBatch(ConfigurationError):
    pass


class BadHook(ConfigurationError):
    def __init__(self, what: str, function: object) -> None:
        super().__init__(
            f"{what} is {function!r:.200}, but it must be a function that returns a context manager, plain or async, "
            "or a generator function with one yield, "
            f"with {'the app' if what == 'lifespan' else 'the attempt'} or nothing as its argument"
        )


class NoKeys(ConfigurationError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"the server does not listen on {host!r}, because there is no key and others could reach it; create one "
            "first with: mulligan keys create --admin --name NAME; or listen on 127.0.0.1"
        )
        self.host = host


class Refused(MulliganError):
    """The job was not accepted; nothing was stored."""


class InvalidArguments(Refused):
    """`option` is the option of the call that does not fit; None: the arguments do not."""

    def __init__(self, kind: str, problem: str, *, option: str | None = None) -> None:
        what = "the arguments do" if option is None else f"the option {option} does"
        super().__init__(f"{what} not fit task {kind!r}: {problem}")
        self.kind, self.option = kind, option


class PayloadTooLarge(Refused):
    def __init__(self, kind: str, size: int, limit: int) -> None:
        super().__init__(
            f"the arguments of task {kind!r} take {size:,} bytes as JSON, the limit is {limit:,}; "
            "store the data elsewhere and pass a reference"
        )
        self.kind, self.size, self.limit = kind, size, limit


class UnknownKind(Refused):
    def __init__(self, kind: str, known: Iterable[str]) -> None:
        super().__init__(unknown("task", kind, known))
        self.kind = kind


class BatchClosed(Refused):
    def __init__(self, batch_id: str, state: str) -> None:
        super().__init__(
            f"batch {batch_id!r} takes no more members: it is {state}; add members before it is published, or make "
            "another batch"
        )
        self.batch_id = batch_id


class IntakePaused(Refused):
    """A person paused the intake. `name` is the kind, the queue, or `"*"`; without `until` it lasts until resumed.

    `retry_after` is the time that is left until then, on the clock of the store.
    """

    def __init__(
        self, name: str, *, until: datetime | None, reason: str | None, retry_after: timedelta | None = None
    ) -> None:
        what = "no new jobs are accepted" if name == "*" else f"no new jobs of {name!r} are accepted"
        end = f"until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "until the intake is resumed"
        super().__init__(f"{what} {end}" + (f", because {reason}" if reason else ""))
        self.name, self.until, self.reason = name, until, reason
        self.retry_after = retry_after


class SubmitRateExceeded(Refused):
    """`retry_after` is the time until this many jobs fit; None: this many never fit at once, submit fewer."""

    def __init__(self, owner: str, rate: str, wanted: int, *, burst: int, retry_after: timedelta | None) -> None:
        possible = (
            f"at most {burst:,} can be submitted at once: submit them in parts"
            if retry_after is None
            else f"try again in {describe(retry_after)}"
        )
        jobs = "a job" if wanted == 1 else f"{wanted:,} jobs"
        super().__init__(f"owner {owner!r} may submit {rate}, and {jobs} more would exceed it: {possible}")
        self.owner, self.retry_after = owner, retry_after


class TooManyJobs(Refused):
    """`live` jobs of the owner are waiting, queued or running, and it may have `limit`."""

    def __init__(self, owner: str, limit: int, live: int, *, wanted: int = 1) -> None:
        jobs = "a job" if wanted == 1 else f"{wanted:,} jobs"
        super().__init__(
            f"owner {owner!r} may have {limit:,} unfinished jobs, has {live:,}, and {jobs} more would exceed it: try "
            "again when some have finished"
        )
        self.owner, self.limit, self.live = owner, limit, live


class BadConnection(Refused):
    def __init__(self, connection: object, problem: str) -> None:
        kind = type(connection)
        super().__init__(
            f"connection= is a {kind.__module__}.{kind.__qualname__}: {problem}; possible are, with an open "
            "transaction, a connection of psycopg 3, a Connection or Session of SQLAlchemy (on psycopg or sqlite3), "
            "Django's 'connection', an sqlite3.Connection, and the asynchronous ones of psycopg 3 and SQLAlchemy "
            "(on psycopg)"
        )


class BadArgument(MulliganError, ValueError):
    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(not_allowed(name, value, allowed))
        self.name = name


class BadFilter(BadArgument):
    pass


class BadSubscriptionOption(BadArgument):
    def __init__(self, name: str, problem: str) -> None:
        ValueError.__init__(self, problem)
        self.name = name


class BadAlertTerm(BadArgument):
    """`name` is the term."""

    def __init__(self, check: str, name: str, problem: str) -> None:
        ValueError.__init__(self, f"alert {check}: {problem}")
        self.name = name


class BadRate(MulliganError, ValueError):
    allowed: ClassVar[str] = "a rate such as '50/s', '600/m' or '1000/h', or a number per second, from 1/d to 10000/s"

    def __init__(self, value: object) -> None:
        super().__init__(f"{value!r:.80} is not a rate; use {self.allowed}")


class RedriveNotFound(MulliganError):
    def __init__(self, redrive_id: str, hint: str = "") -> None:
        super().__init__(f"there is no redrive {redrive_id!r:.200}{hint}")
        self.redrive_id = redrive_id


class JobNotFound(MulliganError):
    def __init__(self, job_id: str, hint: str = "") -> None:
        super().__init__(f"there is no job {job_id!r:.200}{hint}")
        self.job_id = job_id


class BatchNotFound(MulliganError):
    def __init__(self, batch_id: str, hint: str = "") -> None:
        super().__init__(f"there is no batch {batch_id!r:.200}{hint}")
        self.batch_id = batch_id


class GroupNotFound(MulliganError):
    def __init__(self, group_id: str, hint: str = "") -> None:
        super().__init__(
            f"there is no failure group {group_id!r:.200}{hint}; list them with app.failures() or: mulligan failures"
        )
        self.group_id = group_id


class KeyNotFound(MulliganError):
    def __init__(self, key_id: str, hint: str = "") -> None:
        super().__init__(f"there is no key {key_id!r:.200}{hint}")
        self.key_id = key_id


class KeyRefused(MulliganError):
    """The message does not say which of these it is."""

    def __init__(self) -> None:
        super().__init__("the key is unknown, revoked or expired")


class KeyNotAllowed(MulliganError):
    """`scopes` are those of the key that its creator, or the key that revokes it, does not have."""

    def __init__(self, reason: str, scopes: Sequence[str] = (), *, verb: str = "created") -> None:
        super().__init__(f"this key cannot be {verb}: {reason}")
        self.scopes = tuple(scopes)


class KeyExists(MulliganError):
    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"this request created key {key_id!r} already, and its token is shown only once; if you have lost it, "
            "revoke that key and create another with another request id"
        )
        self.key_id = key_id


class SetupRefused(MulliganError):
    def __init__(self) -> None:
        super().__init__(
            "the setup token is unknown, used or expired, or there is an administrator's key already; restart the "
            "server for a new link, or use: mulligan keys create --admin --name NAME"
        )


class LinkRefused(MulliganError):
    def __init__(self) -> None:
        super().__init__(
            "the link is unknown, used or older than ten minutes; make a new one with: mulligan keys link ID"
        )


class SubscriptionNotFound(MulliganError):
    def __init__(self, subscription: str, hint: str = "") -> None:
        super().__init__(f"there is no subscription {subscription!r:.200}{hint}")
        self.subscription = subscription


class SubscriptionExists(MulliganError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is already a subscription named {name!r:.200}; choose another name, or remove it")
        self.name = name


class SubscriptionNotAllowed(MulliganError):
    pass


class TooManySubscriptions(MulliganError):
    def __init__(self, owner: str | None, most: int) -> None:
        of = "the administrators have" if owner is None else f"owner {owner!r:.200} has"
        super().__init__(f"{of} {most} subscriptions already, which is the most; remove one first")
        self.owner, self.most = owner, most


class DeliveryNotFound(MulliganError):
    def __init__(self, delivery: str, hint: str = "") -> None:
        super().__init__(f"there is no delivery {delivery!r:.200}{hint}")
        self.delivery = delivery


class HookNotFound(MulliganError):
    def __init__(self, hook: str, hint: str = "") -> None:
        super().__init__(f"there is no hook {hook!r:.200}{hint}")
        self.hook = hook


class HookExists(MulliganError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is already a hook named {name!r:.200}; choose another name, or remove it")
        self.name = name


class TooManyHooks(MulliganError):
    def __init__(self, owner: str | None, most: int) -> None:
        of = "the administrators have" if owner is None else f"owner {owner!r:.200} has"
        super().__init__(f"{of} {most} hooks already, which is the most; remove one first")
        self.owner, self.most = owner, most


class HookCalledTooOften(MulliganError):
    def __init__(self, hook: str, retry_after: timedelta) -> None:
        super().__init__(f"hook {hook!r:.200} is called too often")
        self.hook, self.retry_after = hook, retry_after


class HookRefused(MulliganError):
    """The message does not say which of these it is."""

    def __init__(self) -> None:
        super().__init__("there is no such hook, or its signature does not fit, or its time is not within five minutes")


class AmbiguousId(MulliganError, ValueError):
    """Several ids begin or end with the given part."""

    def __init__(self, what: str, part: str, candidates: Sequence[str], *, is_cut: bool) -> None:
        more = ", …" if is_cut else ""
        super().__init__(f"{part!r} matches more than one {what}: {', '.join(candidates)}{more}; give more of the id")
        self.part, self.candidates = part, tuple(candidates)


class BatchExpired(MulliganError):
    def __init__(self, batch_id: str, name: str) -> None:
        super().__init__(
            f"batch {name!r} ({batch_id}) has expired: its members cannot be retried; make another batch for them"
        )
        self.batch_id = batch_id


class _UnknownName(MulliganError):
    what: ClassVar[str]

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(unknown(self.what, name, known))
        self.name = name


class UnknownDuty(_UnknownName):
    what = "duty"


class UnknownCheck(_UnknownName):
    what = "check"


class UnknownSchedule(_UnknownName):
    what = "schedule"


class UnknownService(_UnknownName):
    what = "service"


class UnknownQueue(_UnknownName):
    what = "queue"


class UnknownIntake(_UnknownName):
    what = "task or queue"


class UnknownProjection(_UnknownName):
    what = "projection"


class ScheduleInUse(MulliganError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"schedule {name!r} cannot be removed: it is in the code of this app, or of a worker seen in the last two "
            "minutes, which would add it again; remove its @app.cron first, or pause it"
        )
        self.name = name


class IllegalMove(MulliganError):
    """The job's state does not allow the move."""

    def __init__(self, job_id: str, state: State, move: Move) -> None:
        verbs = possible_verbs(state)
        possible = f"a {state} job can be: {', '.join(verbs)}" if verbs else f"nothing can be done with a {state} job"
        super().__init__(f"cannot {move.verb or move} job {job_id!r}: it is {state}; {possible}{self._hint(move)}")
        self.job_id, self.state = job_id, state
        self.move: Move | None = move

    def _hint(self, move: Move) -> str:  # noqa: ARG002
        return ""


class StillRunning(IllegalMove):
    """A worker runs the job, and it is not stuck yet."""

    def __init__(self, job_id: str, move: Move) -> None:
        super().__init__(job_id, State.RUNNING, move)

    def _hint(self, move: Move) -> str:
        return ", or retry once it is stuck" if move is Move.MANUAL_RETRY else ""


class KeyInUse(IllegalMove):
    """The job is not over, so it keeps its dedupe key."""

    def __init__(self, job_id: str, state: State) -> None:
        MulliganError.__init__(
            self,
            f"cannot release the dedupe key of job {job_id!r}: it is {state}; only a job that is over gives up its key",
        )
        self.job_id, self.state, self.move = job_id, state, None


def illegal_move(job_id: str, state: State, move: Move) -> IllegalMove:
    """The error for a move that the state does not allow."""
    if state is State.RUNNING:
        return StillRunning(job_id, move)
    return IllegalMove(job_id, state, move)


class NotAllowed(MulliganError):
    """Raise it from `can_retry` to refuse a manual retry, with a message for the person who asked.

    `code` and `status` are for your own clients: an error code, and the status of an HTTP answer.
    """

    def __init__(self, message: str = "", *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class InsufficientCredits(NotAllowed):
    def __init__(self, required: float, available: float) -> None:
        super().__init__(f"this needs {required:g} credits, {available:g} are available")
        self.required, self.available = required, available


class Conflict(MulliganError):
    """Another job holds the dedupe key or the id. `differs` names the parts in which the two calls differ."""

    def __init__(self, job_id: str, twin: str, *, differs: Sequence[str] = ()) -> None:
        super().__init__(_other_call(job_id, differs) if differs else _key_held(job_id, twin))
        self.job_id, self.twin, self.differs = job_id, twin, tuple(differs)


def _key_held(job_id: str, twin: str) -> str:
    return f"job {job_id!r} cannot be started again: job {twin!r} holds the same dedupe key; look at that job instead"


def _other_call(job_id: str, differs: Sequence[str]) -> str:
    return (
        f"job {job_id!r} exists already and is a different call: it differs in {', '.join(differs)}; "
        "repeat the call exactly, or give this call another id"
    )


class RequestMismatch(Conflict):
    """The request id belongs to another request: `verb` names it. Nothing was changed."""

    def __init__(self, request_id: str, verb: str, message: str | None = None) -> None:
        MulliganError.__init__(
            self,
            message
            or f"request id {request_id!r} was used for another request ({verb}, or other arguments of it); repeat the "
            "same call to get its answer, or use another request id",
        )
        self.request_id, self.verb = request_id, verb
        self.job_id, self.twin, self.differs = "", "", ()


class RequestIdUsed(RequestMismatch):
    """The request id belongs to a redrive with other jobs or options; nothing was started."""

    def __init__(self, request_id: str, redrive_id: str, difference: str) -> None:
        super().__init__(
            request_id,
            "redrive",
            f"request id {request_id!r} was used for redrive {redrive_id}, which {difference}; "
            "repeat the same call to get that redrive, or use another request id to start a new one",
        )
        self.redrive_id = redrive_id


class JobFailed(MulliganError):
    """`message` is the line for users, `detail` the technical one: the exception's type and text, without secrets."""

    def __init__(
        self,
        job_id: str,
        code: str,
        message: str,
        *,
        error_class: str | None = None,
        detail: str | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(f"job {job_id!r} failed with {code}: {with_detail(message, detail)}")
        self.job_id, self.code, self.message = job_id, code, message
        self.error_class, self.detail, self.group = error_class, detail, group


class JobCancelled(MulliganError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id!r} was cancelled")
        self.job_id = job_id


class ResultExpired(MulliganError):
    """The job succeeded, but its result was deleted `at` that time."""

    def __init__(self, job_id: str, at: datetime) -> None:
        super().__init__(f"job {job_id!r} succeeded, but its result expired at {at:%Y-%m-%d %H:%M:%S} UTC")
        self.job_id, self.at = job_id, at


class NoResult(MulliganError):
    """Only a succeeded job has a result."""

    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(f"job {job_id!r} has no result that could expire: it is {state}, not succeeded")
        self.job_id, self.state = job_id, state


class LeaseLost(MulliganError):
    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} of job {job_id!r} lost its lease: another worker may run it; stop here")
        self.job_id, self.attempt = job_id, attempt


class TargetRefused(MulliganError):
    """A URL that a user chose has a form, a port or an address that is not allowed."""

    def __init__(self, target: str, problem: str) -> None:
        super().__init__(f"{target} {problem}" if target.startswith("the ") else f"{target}: {problem}")
        self.target = target


class WebhookFailed(MulliganError):
    """The receiver did not answer with a status of 200 to 299. `headers` has `Retry-After` and `Date`."""

    def __init__(self, target: str, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{target} answered with the status {status}")
        self.target, self.status, self.headers = target, status, dict(headers or {})


class BadSecret(MulliganError, ValueError):
    """The value is not part of the message."""

    def __init__(self) -> None:
        super().__init__("a webhook secret must be 'whsec_' and 24 to 64 random bytes in base64")


class BadMail(MulliganError, ValueError):
    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(not_allowed(field, value, allowed))


class BadProgram(MulliganError, ValueError):
    def __init__(self, given: object, problem: str) -> None:
        super().__init__(f"{given!r:.200} cannot be run: {problem}")


class ProgramFailed(MulliganError):
    """A program failed. `returncode` is its exit status, or the negative number of the signal that ended it."""

    def __init__(self, program: str, returncode: int | None, *, stderr: str = "") -> None:
        super().__init__(f"{program!r} {_ended(returncode)}")
        self.program, self.returncode, self.stderr = program, returncode, stderr
        if stderr:
            # A note appears in every traceback, also of errors raised from this one.
            self.add_note(f"the end of its stderr:\n{stderr}")

    @property
    def exit(self) -> int | None:
        return None if self.returncode is None or self.returncode < 0 else self.returncode

    @property
    def signal(self) -> int | None:
        return None if self.returncode is None or self.returncode >= 0 else -self.returncode


class ProgramTimedOut(ProgramFailed, TimeoutError):
    def __init__(self, program: str, timeout: timedelta, *, stderr: str = "") -> None:
        super().__init__(program, None, stderr=stderr)
        self.args = (f"{program!r} was killed: it had not ended after {describe(timeout)}",)
        self.timeout = timeout


def _ended(returncode: int | None) -> str:
    if returncode is None:
        return "ended with an unknown status: other code in this process collected its exit status"
    # A shell reports 128 + n for signal n.
    if returncode in (-SIGKILL, 128 + SIGKILL):
        return f"was killed ({_how(returncode)}), and not by mulligan: most likely for lack of memory"
    return f"failed: {_how(returncode)}"


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {-returncode}, {Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


class LifespanFailed(MulliganError):
    def __init__(self, when: str, problem: str) -> None:
        super().__init__(f"the lifespan of the app failed {when}: {problem}")


class WorkerCancelled(MulliganError):
    def __init__(self) -> None:
        super().__init__(
            "the code of a task cancelled the asyncio tasks of its worker (asyncio.all_tasks() includes them), so the "
            "worker stopped; its jobs run elsewhere when their leases expire; cancel only tasks that your task started"
        )


class WornOut(MulliganError):
    """Half of a worker's slots are lost. It has drained and must be restarted."""

    def __init__(self, lost: int, slots: int, kinds: Iterable[str]) -> None:
        tasks = ", ".join(repr(kind) for kind in kinds)
        super().__init__(
            f"{lost} of {slots} slots are held by code that does not stop (tasks {tasks}); this worker exits so that "
            "its supervisor restarts it; isolate=True runs such a task in a process that can be killed"
        )
        self.lost, self.slots = lost, slots


class StoreError(MulliganError):
    pass


class StoreUnavailable(StoreError):
    """The store cannot be reached or is busy. Nothing is lost; repeat the call later."""


class TransactionEnded(StoreError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"projection {name!r} ended the transaction it was given, or a statement in it failed: 'apply' must not "
            "commit, roll back or suppress an error of the database, and 'with connection:' commits on sqlite3; the "
            "project call commits after 'apply' returns"
        )


class StoreClosed(StoreError):
    def __init__(self) -> None:
        super().__init__("the store is closed: app.close() was called; use the app again to reopen it")


class StoreFull(StoreUnavailable):
    """There is no space left for the database."""


class BatchBusy(StoreUnavailable):
    def __init__(self, batch_id: str) -> None:
        super().__init__(
            f"batch {batch_id!r} cannot be published now: an open transaction is adding members to it; "
            "commit that transaction first (with connection=, publish after the commit)"
        )
        self.batch_id = batch_id


class StoreReadOnly(StoreError):
    pass


class StoreDamaged(StoreError):
    pass


class UndeclaredProxy(StoreError):
    remedy = "add '?proxy=transaction' to the URL"

    def __init__(self, url: object) -> None:
        super().__init__(
            f"{without_password(url)}: a proxy such as pgbouncer pools transactions, so prepared statements and LISTEN "
            f"do not work through it; {self.remedy}"
        )


class SchemaMismatch(StoreError):
    pass


class ServerError(MulliganError):
    """A client of a server got no answer, or one that no other error stands for. `status` is None without an answer.

    `code` is that of the answer; `retry_after` is when the server wants to be asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


class EventsMissed(MulliganError):
    """`reason` is `pruned` or `unknown_position`. The events after `position` can be followed."""

    def __init__(self, position: int, reason: str) -> None:
        why = "were deleted before they were read" if reason == "pruned" else "may be missing: the log is another one"
        super().__init__(f"events {why}; reload what depends on them, and follow after={position}")
        self.position, self.reason = position, reason


class TaskError(MulliganError):
    """Raised by a task that knows what went wrong. `code` is one of the catalogue's, or your own."""

    default_code: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code


class FinalError(TaskError):
    """Trying again cannot help."""

    default_code = "REJECTED"


class RetryableError(TaskError):
    """Trying again may help."""


class RateLimitedError(TaskError):
    """The task was asked to slow down. With `retry_after` the job waits exactly that long and uses up no attempt.

    With `scope="service"` all jobs of the task's service wait, not only this one.
    """

    default_code = "RATE_LIMITED"

    def __init__(
        self, message: str = "", *, retry_after: Duration | None = None, code: str | None = None, scope: str = "job"
    ) -> None:
        super().__init__(message, code=code)
        if scope not in ("job", "service"):
            raise ValueError(not_allowed("the scope of a rate limit", scope, "'job' or 'service'"))
        self.scope = scope
        self.retry_after: timedelta | None = None if retry_after is None else parse(retry_after)


class Snooze(Exception):
    """Raised by a task that wants to run again later. It is not an error and uses up no attempt."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay = parse(delay)
        super().__init__(message or f"snoozed for {self.delay}")


def without_password(url: object) -> object:
    """The URL with its password masked."""
    if not isinstance(url, str):
        return url
    url = re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1•••", url)
    if "@" not in url:
        return url
    credentials, _, place = url.rpartition("@")
    scheme, separator, given = credentials.partition("://")
    user, colon, _ = given.partition(":")
    return f"{scheme}{separator}{user}{':•••' if colon else ''}@{place}"


__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and isinstance(value, type) and issubclass(value, MulliganError | Snooze)
]
