"""Every parameter of a public call is checked: a wrong value raises an error of ours that says what is possible."""

import re
from collections.abc import Iterator
from datetime import timedelta
from inspect import Parameter, isfunction, signature
from itertools import product
from typing import Any

import pytest

from mulligan import App, Job, JobFilter, RetryPolicy, Service
from mulligan.console.arguments import NAME, check
from mulligan.console.batches import Batch
from mulligan.console.services import ServiceHandle
from mulligan.errors import BadArgument, BadDuration, BadFilter, BadSubscriptionOption, MulliganError
from mulligan.lifecycle import State
from mulligan.records.batch import BatchState
from mulligan.records.job import STRINGS
from mulligan.testing import sandbox

WRONG: tuple[Any, ...] = (
    object(),
    b"x",
    ["x"],
    {},
    {"x"},
    3.5,
    float("nan"),
    True,
    -1,
    0,
    10**30,
    "\0",
    "\ud800",
    "x" * 10_000,
    "",
    "x",
    None,
)

# They configure or start; their errors have tests elsewhere.
WIRING = {"around", "close", "cron", "redact", "serve", "task", "migrate", "run", "worker"}
# Any object is allowed: a connection of one's own is recognised by its type when it is used.
ANYTHING = "connection"


def calls_of(kind: type) -> dict[str, Any]:
    return {name: call for name, call in vars(kind).items() if isfunction(call) and not name.startswith("_")}


APP, BATCH, HANDLE = (calls_of(kind) for kind in (App, Batch, ServiceHandle))


@pytest.fixture
def shop() -> Iterator[App]:
    app = App("sqlite:///:memory:", services=[Service("gateway")])

    @app.task(retry=RetryPolicy(1), service="gateway")
    def charge() -> None:
        raise ValueError

    @app.cron("0 3 * * *", name="nightly")
    @app.task
    def report() -> None: ...

    with sandbox(app) as box:
        charge.enqueue()
        box.run()
        yield app


def samples(app: App) -> dict[str, Any]:
    """What each required parameter takes."""
    job = app.jobs(JobFilter(kind="charge")).jobs[0]
    batch = app.batch("import")
    redrive = app.redrive(JobFilter(kind="charge"), request_id="sample")
    subscription = app.subscribe("failures", types=["job.failed"], channel="email", to="ops@example.org").subscription
    return {
        "job_id": job.id,
        "job": job.id,
        "batch_id": batch.id,
        "redrive_id": redrive.id,
        "name": "nightly",
        "wanted": JobFilter(kind="charge"),
        "older_than": "30d",
        "verb": "cancel",
        "delay": "1h",
        "duration": "1h",
        "owner": "ann",
        "bindings": [],
        "what": "job",
        "part": job.id[-8:],
        "jobs": [job],
        "job_ids": [job.id],
        "key_id": "unknown0",
        "token": "mk_unknown",
        "apply": lambda _events, _connection: None,
        "group": job.group,
        "types": ["job.failed"],
        "channel": "email",
        "to": "ops@example.org",
        "subscription": subscription.id,
        "check": "jobs.depth",
        "delivery": app.test_subscription(subscription.id).id,
        "hook": app.create_hook("partner", batch=batch.id).hook.id,
        "headers": {},
        "body": b"",
    }


def is_required(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind is not Parameter.VAR_POSITIONAL


def tried(holder: object, call: Any, given: dict[str, Any]) -> None:
    """Each parameter with each wrong value, the others as they are needed."""
    parameters = dict(list(signature(call).parameters.items())[1:])
    needed = {name: given[name] for name, parameter in parameters.items() if is_required(parameter)}
    for name, wrong in product(parameters, WRONG):
        try:
            is_open = parameters[name].kind is Parameter.VAR_POSITIONAL
            answer = call(holder, wrong) if is_open else call(holder, **{**needed, name: wrong})
            list(answer) if isinstance(answer, Iterator) else None
        except (MulliganError, TimeoutError) as error:
            assert len(str(error)) < 1_500


@pytest.mark.parametrize("name", sorted(APP.keys() - WIRING - {"wait_async", "enqueue_many_async"}))
def test_no_value_makes_a_call_of_the_app_raise_an_error_that_is_not_ours(shop: App, name: str) -> None:
    tried(shop, APP[name], samples(shop))


def test_no_value_makes_a_call_of_a_batch_or_a_service_raise_an_error_that_is_not_ours(shop: App) -> None:
    for call in BATCH.values():
        tried(shop.batch("import"), call, {})
    for call in HANDLE.values():
        tried(shop.service("gateway"), call, {})


def assert_all_checked(holder: object, calls: dict[str, Any], given: dict[str, Any]) -> None:
    """No parameter takes an object of an unknown type."""
    for call in calls.values():
        parameters = dict(list(signature(call).parameters.items())[1:])
        needed = {each: given[each] for each, parameter in parameters.items() if is_required(parameter)}
        for each, parameter in parameters.items():
            if each == ANYTHING:
                continue
            is_open = parameter.kind is Parameter.VAR_POSITIONAL
            with pytest.raises(MulliganError):
                call(holder, object()) if is_open else call(holder, **{**needed, each: object()})


def test_every_parameter_of_the_app_is_checked(shop: App) -> None:
    calls = {name: call for name, call in APP.items() if name not in WIRING and not name.endswith("_async")}
    assert_all_checked(shop, calls, samples(shop))


def test_every_parameter_of_a_batch_and_of_a_service_is_checked(shop: App) -> None:
    assert_all_checked(shop.batch("import"), BATCH, {})
    assert_all_checked(shop.service("gateway"), HANDLE, {})


def test_a_check_must_name_every_parameter() -> None:
    with pytest.raises(TypeError, match=r"retry must name its parameters: job_id, owner"):

        @check(job_id=NAME)
        def retry(job_id: str, owner: str) -> None: ...


def test_a_check_names_no_parameter_that_was_renamed() -> None:
    with pytest.raises(TypeError, match=r"retry must name its parameters: job"):

        @check(job_id=NAME)
        def retry(job: str) -> None: ...


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("jobs", (), {"limit": "x"}, "limit is 'x', but it must be an integer from 1 to 1,000"),
    ("jobs", (), {"limit": 0}, "limit is 0, but it must be"),
    ("jobs", (), {"limit": -1}, "limit is -1, but it must be"),
    ("jobs", (), {"limit": 10**9}, "limit is 1000000000, but it must be an integer from 1 to 1,000"),
    ("jobs", (), {"limit": True}, "limit is True, but it must be"),
    ("jobs", ({},), {}, r"wanted is {}, but it must be a JobFilter(…)"),
    ("jobs", (), {"owner": 5}, "owner is 5, but it must be a string"),
    ("jobs", (), {"cursor": 5}, "cursor is 5, but it must be"),
    ("job", (None,), {}, "job_id is None, but it must be a string"),
    ("job", (5,), {}, "job_id is 5, but it must be"),
    ("wait", (5,), {}, "job is 5, but it must be a job or a job's id"),
    ("events", (), {"after": "x"}, "after is 'x', but it must be an integer from 0"),
    ("events", (), {"after": -1}, "after is -1, but it must be"),
    ("service", (None,), {}, "name is None, but it must be a string"),
    ("redrive", ({},), {}, "wanted is {}, but it must be"),
    ("redrive", (JobFilter(),), {"request_id": "x" * 201}, "a string of 1 to 200 characters"),
    ("purge", (JobFilter(),), {"older_than": "1d", "dry_run": None}, "dry_run is None, but it must be True or"),
    ("reclassify", (), {"limit": 100_001}, "from 1 to 100,000"),
    ("batches", (), {"limit": 0}, "limit is 0, but it must be"),
    ("find_batch", (5,), {}, "batch_id is 5, but it must be"),
    ("redrives", (), {"limit": 1_001}, "limit is 1001, but it must be"),
    ("spending", (None,), {}, "owner is None, but it must be"),
    ("retry", ("x",), {"actor": object}, "actor is .*, but it must be a string"),
    ("pause", (), {}, r"the target of the pause is [], but it must be one of queue=, kind=, service=, duty="),
    ("pause", ("1h",), {"queue": "a", "kind": "b"}, "is ['queue', 'kind'], but it must be"),
    ("doctor", (5,), {}, "limits is 5, but it must be"),
    ("run", (), {"concurrency": 0}, "concurrency is 0, but it must be an integer from 1 to 10,000"),
    ("run", (), {"queues": "bulk"}, "queues is 'bulk', but it must be a list of queue names"),
    ("worker", (), {"concurrency": "2"}, "concurrency is '2', but it must be"),
    ("run_until_idle", (), {"concurrency": -1}, "concurrency is -1, but it must be"),
    ("receive_hook", ("x", [], b""), {}, "headers is [], but it must be the headers of a request: a mapping of"),
    ("receive_hook", ("x", {"webhook-id": 5}, b""), {}, "but it must be the headers of a request"),
    ("receive_hook", ("x", {}, "{}"), {}, "body is '{}', but it must be bytes"),
    ("enqueue_many", (5,), {}, r"a binding is 5, but it must be a call made with task.bind(…)"),
    ("enqueue_many", (["x"],), {}, "a binding is 'x', but it must be"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "options", "message"), REFUSED)
def test_what_a_call_cannot_take_is_refused_with_what_is_possible(
    shop: App, name: str, given: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(BadArgument, match=pattern):
        getattr(shop, name)(*given, **options)


@pytest.mark.parametrize("field", STRINGS)
@pytest.mark.parametrize("wrong", [5, b"x", ["x"], "\0", "\ud800", "x" * 1_001])
def test_a_filter_takes_text_only(field: str, wrong: Any) -> None:
    with pytest.raises(BadFilter, match=f"{field} is .*, but it must be a string of at most 1,000 characters"):
        JobFilter(**{field: wrong})


@pytest.mark.parametrize("wrong", [5, "x", b"x", [5], ["\0"], ["x"] * 10_001])
def test_the_ids_of_a_filter_are_a_list(wrong: Any) -> None:
    with pytest.raises(BadFilter, match=r"ids is .*, but it must be a list of at most 10,000 ids"):
        JobFilter(ids=wrong)


def test_a_filter_takes_one_state_or_several() -> None:
    assert JobFilter(state=["failed"]) == JobFilter(state="failed") == JobFilter(state={State.FAILED})
    assert JobFilter(state={"failed", "queued"}).states == (State.QUEUED, State.FAILED)
    assert JobFilter().states == tuple(State)
    with pytest.raises(BadFilter, match=r"one of .*, or a list of them"):
        JobFilter(state=["failed", "lost"])


def test_the_state_of_a_filter_may_be_anything_wrong(shop: App) -> None:
    for wrong in (5, object(), [], {}):
        with pytest.raises(BadFilter, match="one of"):
            JobFilter(state=wrong)  # type: ignore[arg-type]
        with pytest.raises(BadFilter, match=", ".join(BatchState)):
            shop.batches(state=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("nothing", [0, "0s", timedelta(0), "0ms", 1e-9])
def test_a_pause_of_no_length_is_refused(shop: App, nothing: Any) -> None:
    things = {"queue": "default", "kind": "charge", "service": "gateway", "duty": "retry", "schedule": "nightly"}
    for what, name in things.items():
        with pytest.raises(
            BadArgument, match="greater than zero, such as '30m'; without one, the pause lasts until resumed"
        ):
            shop.pause(nothing, **{what: name})
    assert shop.pauses() == []


@pytest.mark.parametrize("negative", [-1, "-5s", timedelta(seconds=-1)])
def test_a_pause_into_the_past_is_refused(shop: App, negative: Any) -> None:
    with pytest.raises(BadDuration, match="not negative"):
        shop.pause(negative, queue="default")


@pytest.mark.parametrize("types", [5, object(), [], [5], [["job.failed"]]], ids=range(5))
def test_the_types_of_a_subscription_are_a_list_of_names(shop: App, types: Any) -> None:
    with pytest.raises(BadSubscriptionOption, match=r"it must be a list of event types, such as \['job.failed'\]"):
        shop.subscribe("failures", types=types, channel="email", to="ops@example.org")


def test_a_job_itself_can_be_waited_for(shop: App) -> None:
    job: Job[Any] = shop.enqueue_many([shop.tasks["report"].bind()])[0]
    assert shop.wait(job) is None


@pytest.mark.parametrize(
    "cursor", ["abc", "'", "", "019a8f3e-7c11-7d2e-b5a0-0123456789a", "019A8F3E-7C11-7D2E-B5A0-0123456789AB"]
)
def test_what_cannot_be_a_cursor_is_refused_and_not_taken_for_the_first_page(shop: App, cursor: str) -> None:
    for ask in (shop.jobs, shop.batches, shop.wiring.jobs.search, shop.wiring.batches.search):
        with pytest.raises(BadArgument, match="the previous page"):
            ask(cursor=cursor)
