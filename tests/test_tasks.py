import asyncio
import dataclasses
import enum
import gc
import inspect
import pydoc
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mulligan import (
    App,
    Conflict,
    FinalError,
    InvalidArguments,
    JobFailed,
    JobFilter,
    MulliganError,
    NotAllowed,
    Owner,
    PayloadTooLarge,
    Queue,
    RetryPolicy,
    Rule,
    Service,
    Snooze,
    attempt,
)
from mulligan.errors import BadArgument, BadFilter, BadTask, BadUrl, UnknownKind
from mulligan.failure.error_codes import ErrorClass
from mulligan.records.job import ERROR_CLASSES
from mulligan.task.payload import Misfit, Payload, PayloadError
from mulligan.task.task import Task
from mulligan.testing import sandbox
from mulligan.values.ids import is_id


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


def test_arguments_and_results_are_converted_to_the_annotations() -> None:
    app = App("sqlite:///:memory:")
    seen: list[Any] = []

    @app.task
    def everything(
        path: Path,
        moment: datetime,
        number: UUID,
        /,
        point: Point,
        *rest: Decimal,
        colour: Colour,
        wait: timedelta = timedelta(1),
        **more: int,
    ) -> Point:
        seen.append((path, moment, number, point, rest, colour, wait, more))
        return Point(point.y, point.x)

    number = UUID(int=7)
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    with sandbox(app):
        job = everything.enqueue(Path("a/b"), moment, number, Point(1, 2), Decimal("1.10"), colour=Colour.RED, extra=5)
        assert app.wait(job) == Point(2, 1)
    assert seen == [
        (Path("a/b"), moment, number, Point(1, 2), (Decimal("1.10"),), Colour.RED, timedelta(1), {"extra": 5})
    ]


def test_calling_a_task_calls_the_function() -> None:
    app = App("sqlite:////nowhere/at/all.db")

    @app.task
    def double(number: int) -> int:
        return number * 2

    assert double(4) == 8


class Unencodable:
    pass


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "missing a required argument"),
        ((1, 2), "too many positional arguments"),
        (("text",), "Expected `int`, got `str`"),
        ((Unencodable(),), "Unencodable cannot be written as JSON"),
        ((float("nan"),), "NaN"),
        ((endless(),), "cannot be written as JSON"),
        (("\ud800",), "cannot be written as JSON"),
        ((10**5000,), "cannot be written as JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_stored(arguments: tuple[Any, ...], says: str) -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def square(number: int) -> None: ...

    @app.task
    def anything(value) -> None: ...  # type: ignore[no-untyped-def]

    task: Any = square if says.startswith(("missing", "too many", "Expected")) else anything
    with sandbox(app):
        with pytest.raises(InvalidArguments, match=says):
            task.enqueue(*arguments)
        assert app.jobs().jobs == ()


def test_arguments_that_are_too_large_are_refused_with_the_limit() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def store(text: str) -> None: ...

    with sandbox(app):
        with pytest.raises(PayloadTooLarge, match="262,144"):
            store.enqueue("x" * 262_143)
        assert app.jobs().jobs == ()


def test_a_result_that_is_no_json_is_final_and_the_task_is_not_run_again() -> None:
    app = App("sqlite:///:memory:")
    runs = []

    @app.task
    def secretive() -> Any:
        runs.append(1)
        return Unencodable()

    with sandbox(app) as box:
        job = secretive.enqueue()
        box.advance("1d")
        assert app.job(job.id).error_code == "RESULT_INVALID"
    assert runs == [1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": "urgent"}, "'high', 'normal', 'low'"),
        ({"delay": "soon"}, "'1h30m'"),
        ({"dedupe": ""}, "must not be empty"),
        ({"dedupe": "k", "dedupe_scope": "always"}, "'active', 'succeeded'"),
        ({"tags": "eu"}, "a list of strings"),
        ({"tags": ["x"] * 51}, "at most 50"),
        ({"owner": "a\0b"}, "it must be one line of 1 to 200 printable characters, without spaces around them"),
        ({"owner": None}, "owner is None, but it must be one line"),
        ({"tags": [""]}, "a tag is '', but it must be one line of 1 to 200 printable characters"),
        ({"dedupe": "a\0b"}, "a string of at most 500 characters that a database can store"),
        ({"id": ""}, "an id must not be empty"),
        ({"id": "x" * 501}, "id is .*, but it must be a string of at most 500 characters"),
        ({"id": 7}, "id is .*, but it must be a string of at most 500 characters"),
        ({"owner": "*"}, "which stands for every owner; a job has one, or none"),
        ({"submitted_at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_bad_options_are_refused_with_what_is_possible(options: dict[str, Any], says: str) -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def task() -> None: ...

    with pytest.raises((InvalidArguments, BadTask, ValueError), match=says):
        task.options(**options)


# A line of its own, a colour, a line without looking like one, letters backwards, nothing to see, only a space.
DECEIVING = ["a\nb", "\x1b[31m", "a\u2028b", "\u202e", "a\u200b", "\ufeff", "\x7f", "\ud800", " ", "a ", "x" * 201]


@pytest.mark.parametrize("name", DECEIVING)
def test_one_rule_holds_for_all_names_that_are_stored(name: str) -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(lambda: None)
    for given in ({"owner": name}, {"tags": [name]}, {"queue": name}):
        with pytest.raises(MulliganError, match="one line of 1 to 200 printable characters"):
            task.options(**given)
    for make in (lambda name: app.task(name)(print), app.batch, lambda owner: app.batch("import", owner=owner)):
        with pytest.raises(MulliganError, match="one line of 1 to 200 printable characters"):
            make(name)
    for make in (Owner, Queue, Service):
        with pytest.raises(MulliganError, match=r"it must be|is no"):
            make(name)


def test_options_reach_the_job() -> None:
    app = App("sqlite:///:memory:")

    @app.task(cost=3, queue="slow", retry=RetryPolicy(7, deadline="1h"))
    def task() -> None: ...

    moment = datetime(2020, 5, 5, tzinfo=UTC)
    with sandbox(app) as box:
        job = task.options(
            owner="acme", priority="high", delay="10m", dedupe="k", tags=["eu", "b"], submitted_at=moment
        ).enqueue()
        assert (job.owner, job.priority, job.tags, job.submitted_at) == ("acme", -10, ("eu", "b"), moment)
        assert (job.cost, job.queue, job.max_attempts, job.state, job.waiting_for) == (3, "slow", 7, "waiting", "delay")
        assert job.due_at == box.now + timedelta(minutes=10)
        assert job.deadline == box.now + timedelta(hours=1), "deadlines count from enqueue, not from submitted_at"


def test_the_arguments_of_a_job_are_data() -> None:
    app = App("sqlite:///:memory:")
    seen: list[Any] = []

    @app.task
    def move(point: Point, *steps: int, wait: timedelta = timedelta(0), **more: str) -> None:
        seen.append(attempt().job.arguments)

    with sandbox(app):
        job = move.enqueue(Point(1, 2), 3, 4, wait=timedelta(minutes=1), colour="red")
        as_json = {"point": {"x": 1, "y": 2}, "steps": [3, 4], "wait": "PT60S", "more": {"colour": "red"}}
        assert job.arguments == as_json
        app.wait(job)
        assert (app.job(job.id).arguments, seen) == (as_json, [as_json])


def test_help_shows_the_options_of_a_task_with_their_meaning() -> None:
    signature = inspect.signature(App.task)
    assert signature.parameters["timeout"].default == "15m"
    assert signature.parameters["queue"].default == "default"
    shown = pydoc.render_doc(App.task)
    for name in signature.parameters.keys() - {"self", "name"}:
        assert f"`{name}`" in shown, f"the docstring does not say what {name} means"
    assert signature.parameters.keys() - {"self"} >= inspect.signature(Task).parameters.keys() - {"function", "client"}


def test_a_call_with_an_id_can_be_repeated_and_no_other_one_made_under_it() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def pay(order: int, tags: frozenset[str] = frozenset(), **more: int) -> int:
        return order

    @app.task
    def refund(order: int) -> int:
        return order

    with sandbox(app) as box:
        first = pay.options(id="order 7").enqueue(7, a=1, b=2)
        assert (is_id(first.id), first.is_duplicate) == (True, False)
        box.run()
        again = pay.options(id="order 7").enqueue(7, b=2, a=1)
        assert (again.id, again.is_duplicate, again.result) == (first.id, True, 7)
        with pytest.raises(Conflict, match=r"it differs in its arguments \(more, order\); repeat the call exactly"):
            pay.options(id="order 7").enqueue(8)
        others = [refund.options(id="order 7").enqueue(7), pay.options(id="order 7", owner="acme").enqueue(7)]
        assert len({first.id, *(job.id for job in others)}) == 3, "a string names a job of its owner and kind"

        own = UUID("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")
        assert pay.options(id=own).enqueue(1).id == pay.options(id=str(own).upper()).enqueue(1).id == str(own)
        with pytest.raises(Conflict, match=r"its kind \('pay', not 'refund'\)"):
            refund.options(id=own).enqueue(1)
        assert len(app.jobs(JobFilter()).jobs) == 4


def test_an_id_holds_for_calls_made_together_in_a_batch_and_asynchronously() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def pay(order: int) -> int:
        return order

    with sandbox(app):
        call = pay.options(id="7").bind(7)
        first, twin, other = app.enqueue_many([call, call, pay.bind(7)])
        assert (twin.id, twin.is_duplicate, other.is_duplicate) == (first.id, True, False)
        assert asyncio.run(pay.options(id="7").enqueue_async(7)).id == first.id
        assert asyncio.run(app.enqueue_many_async([call]))[0].id == first.id
        batch = app.batch("payments", owner="acme")
        (member,) = batch.add(call)
        batch.publish()
        assert batch.add(call)[0].id == member.id, "also when its batch takes no more members"
        assert member.id != first.id, "the owner is the batch's"
        with pytest.raises(Conflict, match="its batch"):
            app.batch("more payments", owner="acme").add(call)


ORDERLY = """
import sys
from mulligan.task.payload import Payload
def pay(tags: frozenset[str]): ...
sys.stdout.write(Payload(pay, "pay").encode((frozenset(map(str, range(50))),), {}, in_order=True))
"""


def test_the_same_call_is_the_same_json_in_every_process() -> None:
    one, two = (
        subprocess.check_output([sys.executable, "-c", ORDERLY], env={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    )
    assert one == two != b""


def test_two_tasks_of_one_name_are_an_error() -> None:
    app = App("sqlite:///:memory:")
    app.task("twice")(lambda: None)
    with pytest.raises(BadTask, match="two tasks are named 'twice'"):
        app.task("twice")(lambda: None)
    with pytest.raises(BadTask, match="two tasks are named 'twice'"):
        app.task("other", aliases=["twice"])(lambda: None)


@pytest.mark.parametrize("name", ["a\nb", "x" * 201, " "])
def test_a_bad_task_name_is_refused(name: str) -> None:
    with pytest.raises(BadTask, match="one line"):
        App("sqlite:///:memory:").task(name)(lambda: None)


def test_a_job_enqueued_under_a_former_name_runs() -> None:
    before, after = App("sqlite:///:memory:"), App("sqlite:///:memory:")

    @before.task
    def old_name() -> str:
        return "old"

    @after.task(aliases=["old_name"])
    def new_name() -> str:
        return "new"

    with sandbox(after):
        binding = old_name.bind()
        (job,) = after.enqueue_many([binding])
        assert after.wait(job) == "new"


def test_many_calls_and_their_jobs_give_the_garbage_collector_nothing_to_do() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def count(number: int) -> None: ...

    with app:
        bindings = [count.bind(number) for number in range(3)]
        jobs = app.enqueue_many(bindings)
        assert not any(map(gc.is_tracked, [*bindings, *count.client._new_jobs(bindings), *jobs]))


def test_bulk_enqueue_takes_any_kinds_and_keeps_their_order() -> None:
    app = App("sqlite:///:memory:")

    @app.task
    def one(number: int) -> int:
        return number

    @app.task
    async def two(text: str) -> str:
        return text

    with sandbox(app):
        jobs = app.enqueue_many([one.bind(1), two.bind("b"), one.bind(3)])
        assert [app.wait(job) for job in jobs] == [1, "b", 3]
        assert app.enqueue_many([]) == []


def two_versions() -> tuple[App, Task[Any, Any, Any], App]:
    """The newer version's task has one more argument."""
    newer, older = App("sqlite:///:memory:"), App("sqlite:///:memory:", version="1")

    @newer.task("both")
    def second(n: int, region: str = "eu") -> str:
        return f"{n} in {region}"

    @older.task("both")
    def first(n: int) -> int:
        return n

    return newer, second, older


def test_a_job_of_another_version_is_given_back_and_not_run_without_its_arguments() -> None:
    _newer, second, older = two_versions()
    with sandbox(older) as box:
        (job,) = older.enqueue_many([second.bind(2, region="us")])
        box.run()
        found = older.job(job.id)
        assert (found.state, found.waiting_for, found.due_at > box.now) == ("waiting", "another version", True)
        assert (found.failures, found.snoozes, found.code_failures) == (0, 0, {"VERSION_MISMATCH": 1})
        told = "\n".join((*older.explain(job.id).happened, *older.explain(job.id).next))
        assert "task 'both': it does not take 'region'" in told
        assert "It is unhandled" in told
        findings = {finding.code: finding for finding in older.doctor()}
        unhandled = findings["jobs.unhandled"]
        assert "1 of 'both' in queue 'default'" in unhandled.found and unhandled.level == "warning"
        box.advance("10m")
        assert older.job(job.id).attempt <= 25, "no worker spins on it"


def test_a_job_that_no_version_takes_fails_in_the_end() -> None:
    _newer, second, older = two_versions()
    with sandbox(older) as box:
        (job,) = older.enqueue_many([second.bind(2, region="us")])
        for _ in range(10):
            box.advance("1h")
        assert older.job(job.id).state == "waiting"
        for _ in range(5):
            box.advance("1h")
        failed = older.job(job.id)
        assert (failed.state, failed.error_code, failed.failures) == ("failed", "INVALID_INPUT", 0)
        assert "no worker that claimed it has a fitting version of its task" in "\n".join(older.explain(job.id).next)
        older.retry(job.id)
        box.run()
        assert older.job(job.id).code_failures == {"VERSION_MISMATCH": 1}, "a manual retry starts from zero"


def test_a_job_of_another_version_has_no_more_time_than_its_deadline() -> None:
    _newer, second, older = two_versions()
    with sandbox(older) as box:
        (job,) = older.enqueue_many([second.options(deadline="1m").bind(2, region="us")])
        box.advance("5m")
        assert older.job(job.id).error_code == "DEADLINE"


def test_a_worker_of_the_right_version_takes_what_another_gave_back(tmp_path: Path) -> None:
    newer, second, older = two_versions()
    for app in (newer, older):
        app.settings = dataclasses.replace(app.settings, database_url=f"sqlite:///{tmp_path}/jobs.db")
    with newer, older:
        job = second.enqueue(2, region="us")
        older.run_until_idle(timeout="60s")
        assert older.job(job.id).waiting_for == "another version"
        newer.run_now(job.id)
        newer.run_until_idle(timeout="60s")
        assert newer.job(job.id).result == "2 in us"


@pytest.mark.parametrize(
    ("stored", "fits"),
    [
        ('{"n":1}', ((1,), {})),
        ('{"n":1,"rest":[2,3]}', ((1, 2, 3), {})),
        ('{"n":1,"flag":true}', ((1,), {"flag": True})),
        ('{"n":1,"more":{"a":"2"},"b":"3"}', ((1,), {"a": "2", "b": "3"})),
        ('{"n":1,"b":3}', "Expected `str`, got `int`"),
        ('{"flag":true}', "it needs 'n'"),
        ('{"n":"one"}', "Expected `int`, got `str`"),
        ("[1]", "Expected `object`, got `array`"),
        ("nonsense", "malformed"),
    ],
)
def test_stored_arguments_fit_a_signature_by_their_names_and_types(stored: str, fits: Any) -> None:
    def task(n: int, /, *rest: int, flag: bool = False, **more: str) -> None: ...

    payload = Payload(task, "task")
    if isinstance(fits, tuple):
        assert payload.decode(stored) == fits
        return
    with pytest.raises(PayloadError, match=fits) as raised:
        payload.decode(stored)
    assert isinstance(raised.value, Misfit) == stored.startswith("{")


def test_a_job_whose_arguments_are_of_another_type_is_given_back_too() -> None:
    newer, older = App("sqlite:///:memory:"), App("sqlite:///:memory:")

    @newer.task("task")
    def name(n: str) -> None: ...

    @older.task("task")
    def number(n: int) -> None: ...

    with sandbox(older) as box:
        (job,) = older.enqueue_many([name.bind("one")])
        box.run()
        found = older.job(job.id)
        assert (found.waiting_for, found.failures) == ("another version", 0)
        assert "Expected `int`, got `str` - at `$.n`" in "\n".join(older.explain(job.id).happened)


class Even:
    """A type that judges values by itself, as models do."""

    @classmethod
    def model_validate(cls, value: Any) -> "Even":
        if value % 2:
            raise ValueError("it is odd")
        return cls()


def test_what_a_type_of_ones_own_refuses_is_a_final_failure_at_once() -> None:
    newer, older = App("sqlite:///:memory:"), App("sqlite:///:memory:")

    @newer.task("task")
    def name(n: int) -> None: ...

    @older.task("task")
    def number(n: Even) -> None: ...

    with sandbox(older) as box:
        (job,) = older.enqueue_many([name.bind(1)])
        box.run()
        failed = older.job(job.id)
        assert (failed.error_code, failed.failures, failed.attempt) == ("INVALID_INPUT", 1, 1)


def test_waiting_raises_what_became_of_the_job() -> None:
    app = App("sqlite:///:memory:")

    @app.task(retry=RetryPolicy(1))
    def broken() -> None:
        raise RuntimeError("broken")

    @app.task
    def fine() -> int:
        return 1

    with sandbox(app):
        with pytest.raises(JobFailed, match="UNKNOWN") as raised:
            app.wait(job := broken.enqueue())
        failed, found = raised.value, app.job(job.id)
        assert str(failed).endswith(f"failed with UNKNOWN: {failed.message} (RuntimeError: broken)")
        assert (failed.code, failed.error_class, failed.detail) == ("UNKNOWN", "retryable", "RuntimeError: broken")
        assert (failed.message, failed.group) == (found.error_message, found.group) and failed.group
        assert found.error_detail == "RuntimeError: broken"
        with pytest.raises(TimeoutError, match="still waiting after 5m"):
            app.wait(fine.options(delay="1h").enqueue(), timeout="5m")


def test_an_unknown_kind_names_the_known_ones() -> None:
    app = App("sqlite:///:memory:")
    app.task("known")(lambda: None)
    with pytest.raises(UnknownKind, match=r"'nope'; known are: 'known'"):
        app.tasks["nope"]


@pytest.mark.parametrize(
    "url", ["", "jobs.db", "mysql://x/y", "sqlite://jobs.db", "sqlite:///a.db?mode=ro", "redis://user:secret@host/1"]
)
def test_a_bad_url_is_refused_with_one_that_works_and_without_its_password(url: str) -> None:
    app = App(url) if url else App(" ")
    with pytest.raises(BadUrl, match=r"use 'sqlite:///jobs\.db'") as raised:
        app.migrate()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retry": 3}, r"retry of task 'task' is 3, but it must be a RetryPolicy"),
        ({"rules": [5]}, r"rules of task 'task' is \[5\], but it must be a list of Rule"),
        ({"rules": 5}, r"rules of task 'task' is 5, but it must be a list of Rule"),
        ({"can_retry": 5}, r"can_retry of task 'task' is 5, but it must be a function of the job, not an async one"),
        ({"can_retry": asyncio.sleep}, r"can_retry of task 'task' is .*, but it must be .* not an async one"),
        ({"aliases": "resize"}, r"aliases of task 'task' is 'resize', but it must be a list of its former names"),
        ({"aliases": 5}, r"aliases of task 'task' is 5, but it must be a list of its former names"),
        ({"timeout": "0s"}, r"timeout of task 'task' is '0s', but it must be greater than zero, such as '30s'"),
        ({"timeout": 0}, r"timeout of task 'task' is 0, but it must be greater than zero"),
        ({"service": 5}, r"service of task 'task' is 5, but it must be a name"),
    ],
)
def test_what_cannot_belong_to_a_task_is_refused_when_it_is_registered(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadTask, match=says):
        App("sqlite:///:memory:").task("task", **options)(lambda: None)


def test_a_service_is_named_by_the_task_or_by_the_arguments_of_the_call() -> None:
    app = App("sqlite:///:memory:")

    @app.task(service="gateway")
    def fixed() -> None: ...

    @app.task(service=lambda url: f"site:{url}")
    def computed(url: str) -> None: ...

    with sandbox(app):
        assert fixed.enqueue().service == "gateway"
        assert computed.enqueue("example.org").service == "site:example.org"


def test_a_submission_time_outside_the_calendar_is_refused() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task")(lambda: None)
    moment = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12)))
    with pytest.raises(InvalidArguments, match="submitted_at"):
        task.options(submitted_at=moment)


BOGUS_FILTERS = [{"state": "bogus"}, {"error_class": "bogus"}, {"since": datetime(2026, 1, 1)}]  # noqa: DTZ001


@pytest.mark.parametrize("wanted", BOGUS_FILTERS)
def test_a_filter_that_means_nothing_is_refused_with_what_does(wanted: dict[str, Any]) -> None:
    with pytest.raises(BadFilter, match="it must be"):
        JobFilter(**wanted)


def test_a_filter_takes_every_error_class() -> None:
    assert tuple(ErrorClass) == ERROR_CLASSES


def test_a_call_is_rejected_with_what_is_known_of_it() -> None:
    app = App("sqlite:///:memory:", rules=[Rule("BAD_INPUT", "final", when=ValueError)])
    follow = app.task("follow")(lambda job_id: None)  # noqa: ARG005

    @app.task(service=lambda path, mapping: f"site:{path}{mapping}", on_failed=follow)
    def convert(path: str, mapping: str) -> None: ...

    with sandbox(app) as box:
        job = convert.options(owner="acme", dedupe="k", dedupe_for="1d", tags=["eu"]).reject(
            FinalError("not a PDF", code="NOT_PDF"), mapping="invoice"
        )
        assert (job.state, job.attempt, job.error_code, job.error_class) == ("failed", 0, "NOT_PDF", "final")
        assert (job.owner, job.tags, job.arguments) == ("acme", ("eu",), {"mapping": "invoice"})
        assert (job.service, job.dedupe_key, job.dedupe_until) == ("", None, None)
        assert convert.reject(ValueError("no"), "a", "b").error_code == "BAD_INPUT"
        box.run()
        assert app.jobs(JobFilter(kind="follow")).jobs == ()
        (judged,) = app.reclassify(JobFilter(code="BAD_INPUT")).jobs
        assert (judged.new_code, judged.decision) == ("BAD_INPUT", "fail")
        with pytest.raises(JobFailed, match="not a PDF"):
            app.wait(convert.reject(FinalError("not a PDF")))
        with pytest.raises(InvalidArguments, match="unexpected"):
            convert.reject(FinalError("no"), other=1)
        for wrong in ("no", FinalError, Snooze("5m")):
            with pytest.raises(BadArgument, match="an exception that is a failure"):
                convert.reject(wrong)  # type: ignore[arg-type]


def test_a_rejected_job_does_not_announce_a_retry() -> None:
    app = App("sqlite:///:memory:")
    job = app.task("send")(lambda: None).reject(ValueError("no"))
    assert (job.error_code, job.error_message) == ("UNKNOWN", "Something went wrong.")
    assert app.events(job.id)[-1].data["message"] == "Something went wrong."


class TestARetryOfARejectedJob:
    """Its arguments were not checked. No worker can run it if they do not fit the task."""

    @pytest.fixture
    def app(self) -> App:
        app = App("sqlite:///:memory:")

        @app.task
        def convert(path: str, pages: int) -> str:
            return f"{pages} of {path}"

        return app

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [({"path": "a"}, "it needs 'pages'"), ({"path": "a", "pages": "many"}, "Expected `int`, got `str`")],
    )
    def test_is_refused_if_the_arguments_do_not_fit(self, app: App, arguments: dict[str, Any], problem: str) -> None:
        job = app.tasks["convert"].reject(FinalError("no"), **arguments)
        for move in (app.retry, app.run_now):
            with pytest.raises(NotAllowed, match=f"do not fit task 'convert': {problem}.*as a new job") as refused:
                move(job.id)
            assert refused.value.code == "INVALID_INPUT"
        assert app.job(job.id).state == "failed"

    def test_is_made_if_the_arguments_fit(self, app: App) -> None:
        job = app.tasks["convert"].reject(FinalError("no"), "a", pages=3)
        assert job.was_rejected
        app.retry(job.id)
        app.run_until_idle()
        assert (app.wait(job), app.job(job.id).was_rejected) == ("3 of a", False)

    def test_is_skipped_by_a_redrive_and_by_the_retry_of_a_batch(self, app: App) -> None:
        convert, batch = app.tasks["convert"], app.batch("import")
        jobs = [convert.options(batch=batch).reject(FinalError("no"), "a", **more) for more in ({}, {"pages": 3})]
        batch.publish()
        begun = app.redrive(JobFilter(ids=[jobs[0].id]), canary=0)
        app.run_duty("redrive")
        assert app.redrive_status(begun.id).skipped == {"not allowed": 1}
        retried = app.retry_batch(batch.id)
        assert (retried.jobs, list(retried.skipped)) == ((jobs[1].id,), [jobs[0].id])
        assert "it needs 'pages'" in retried.skipped[jobs[0].id]
