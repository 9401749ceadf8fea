"""`@app.cron` and what people do with schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import App, State
from mulligan.errors import BadArgument, BadSchedule, ScheduleInUse, UnknownSchedule
from mulligan.records.schedule import job_id_of
from mulligan.testing import sandbox

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


# The decorator


def test_the_decorator_gives_the_task_back(app: App) -> None:
    @app.cron("@daily")
    @app.task
    def report() -> int:
        return 7

    assert report() == 7
    assert report is app.tasks["report"]
    assert list(app.timetable) == ["report"]


def test_several_schedules_stand_above_one_task(app: App) -> None:
    @app.cron("0 6 * * *", name="early", args=["eu"])
    @app.cron("0 18 * * *", name="late", args=("us",), timezone="America/New_York", missed="skip")
    @app.task
    def report(region: str) -> None: ...

    assert {name: schedule.definition.arguments for name, schedule in app.timetable.items()} == {
        "late": '{"region":"us"}',
        "early": '{"region":"eu"}',
    }


@pytest.mark.parametrize(
    ("expression", "options", "says"),
    [
        ("* * *", {}, r"'\* \* \*' is not a cron expression: wrong number of fields"),
        ("@never", {}, "not an alias"),
        ("@daily", {"timezone": "Mars/Olympus"}, "'Mars/Olympus' is not the name of a time zone"),
        (
            "@daily",
            {"missed": "twice"},
            "missed of schedule 'report' is 'twice', but it must be one of 'once', 'skip', 'all'",
        ),
        ("@daily", {"args": ["eu", 1]}, "schedule 'report': the arguments do not fit task 'report': too many"),
        ("@daily", {"args": []}, "schedule 'report': .* missing a required argument: 'region'"),
        ("@daily", {"args": "eu"}, "args of schedule 'report' is 'eu', but it must be a list"),
        (
            "@daily",
            {"name": ""},
            "the name of a schedule is '', but it must be one line of 1 to 191 printable characters",
        ),
        ("@daily", {"name": "x" * 192}, "1 to 191 printable characters"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_at_once(app: App, expression: str, options: Any, says: str) -> None:
    @app.task
    def report(region: str) -> None: ...

    with pytest.raises(BadSchedule, match=says):
        app.cron(expression, **{"args": ["eu"], **options})(report)
    assert not app.timetable


def test_arguments_of_a_wrong_type_are_refused_when_a_worker_starts(app: App) -> None:
    @app.cron("@daily", args=["seven"])
    @app.task
    def report(number: int) -> None: ...

    with pytest.raises(BadSchedule, match=r"schedule 'report': .*Expected `int`, got `str`"):
        app.run_until_idle()


def test_two_schedules_of_one_name_are_refused(app: App) -> None:
    with pytest.raises(BadSchedule, match="two schedules are named 'report'; give one of them another name="):

        @app.cron("@daily")
        @app.cron("@hourly")
        @app.task
        def report() -> None: ...


def test_the_decorator_stands_above_the_task_of_its_own_app(app: App) -> None:
    def report() -> None: ...

    with pytest.raises(BadSchedule, match=r"@app.cron must stand above @app.task of the same app"):
        app.cron("@daily")(report)  # type: ignore[type-var]
    with pytest.raises(BadSchedule, match=r"of the same app"):
        app.cron("@daily")(App("sqlite:///:memory:").task(report))


# In a time that moves


@pytest.fixture
def ran(app: App) -> list[tuple[str, datetime]]:
    """What ran, and at which tick."""
    ran: list[tuple[str, datetime]] = []

    @app.cron("0 * * * *", args=["eu"])
    @app.task
    def report(region: str) -> None:
        from mulligan import attempt

        assert attempt().job is not None
        ran.append((region, attempt().job.submitted_at))

    return ran


def test_the_sandbox_runs_every_tick_at_its_time(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON + HOUR / 2) as box:
        box.advance("3h")
        assert ran == [("eu", NOON + number * HOUR) for number in (1, 2, 3)]
        (status,) = app.schedules()
        assert (status.last_tick, status.last_state) == (NOON + 3 * HOUR, State.SUCCEEDED)
        assert status.next == tuple(NOON + number * HOUR for number in (4, 5, 6))


def test_a_pause_of_the_duty_holds_all_schedules(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        box.run()
        app.pause("90m", duty="schedule")
        box.advance("89m")
        assert ran == []
        box.advance("1m")
        assert ran == [("eu", NOON + HOUR)]


def test_time_passes_in_the_sandbox_also_when_a_schedule_cannot_be_run(app: App) -> None:
    def service() -> str:
        raise RuntimeError("no such host")

    @app.cron("0 * * * *")
    @app.task(service=service)
    def report() -> None: ...

    with sandbox(app, now=NOON) as box:
        box.advance("5h")
        assert box.now == NOON + 5 * HOUR
        assert app.schedules()[0].overdue_since == NOON + HOUR


def test_a_schedule_is_listed_before_any_worker_came(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON):
        (status,) = app.schedules()
        assert (status.name, status.kind, status.expression, status.timezone) == (
            "report",
            "report",
            "0 * * * *",
            "UTC",
        )
        assert (status.last_tick, status.last_job, status.paused, status.is_orphaned) == (None, None, None, False)
        assert status.next[0] == NOON + HOUR


def test_a_paused_schedule_is_not_run_until_the_pause_is_over(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        box.run()
        pause = app.pause("90m", schedule="report", actor="ann", reason="the gateway is down")
        assert app.schedules()[0].paused == pause
        assert app.schedules()[0].next[0] == NOON + 2 * HOUR
        box.advance("80m")
        assert ran == []
        box.advance("15m")
        assert ran == [("eu", NOON + HOUR)], "missed, and made up for"
        app.pause(schedule="report")
        assert app.schedules()[0].next == ()
        box.advance("5h")
        assert len(ran) == 1
        assert app.resume(schedule="report") is not None
        box.run()
        assert len(ran) == 2


def test_a_manual_run_moves_no_tick(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        app.pause(schedule="report")
        box.run()
        job = app.run_schedule("report", actor="ann", reason="the numbers were wrong")
        box.run()
        assert (len(ran), job.tags) == (1, ("schedule:report",))
        (status,) = app.schedules()
        assert (status.last_job, status.last_state, status.last_tick) == (job.id, State.SUCCEEDED, None)
        app.resume(schedule="report")
        box.advance("1h")
        assert ran[1:] == [("eu", NOON + HOUR)]
        (event,) = [event for event in app.events() if event.type == "schedule.run_requested"]
        assert (event.actor, event.data["reason"], event.data["job"]) == ("ann", "the numbers were wrong", job.id)


def test_a_manual_run_needs_no_worker_before_it(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON):
        assert app.run_schedule("report").state is State.QUEUED
        assert app.schedules()[0].next[0] == NOON + HOUR


def test_explain_names_the_schedule_and_its_tick(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        box.advance("1h")
        told = app.explain(job_id_of("report", NOON + HOUR)).happened[0]
        assert "It was enqueued by schedule 'report' for its tick at 2026-11-16 13:00:00 UTC, to run at once." in told
        told = app.explain(app.run_schedule("report").id).happened[0]
        assert "It was enqueued by schedule 'report', run manually, to run at once." in told


def test_a_schedule_that_no_app_has_any_more_is_orphaned_and_can_be_removed(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        box.run()
        with pytest.raises(ScheduleInUse, match="cannot be removed: it is in the code"):
            app.remove_schedule("report")
        del app.timetable._schedules["report"]
        with pytest.raises(ScheduleInUse):
            app.remove_schedule("report")
        box.advance("5h")
        (status,) = app.schedules()
        assert (status.is_orphaned, status.next, ran) == (True, (), [])
        with pytest.raises(BadSchedule, match="is not in the code of this app"):
            app.run_schedule("report")
        app.remove_schedule("report", actor="ann")
        assert app.schedules() == []


def test_a_tick_that_no_worker_ran_is_shown(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON) as box:
        box.run()
        box._clock.advance(2 * HOUR)
        (status,) = app.schedules()
        assert status.overdue_since == NOON + HOUR


def test_an_unknown_name_is_refused_with_the_known_ones(app: App, ran: list[Any]) -> None:
    with sandbox(app, now=NOON):
        for call in (
            lambda: app.pause(schedule="rapport"),
            lambda: app.resume(schedule="rapport"),
            lambda: app.run_schedule("rapport"),
            lambda: app.remove_schedule("rapport"),
        ):
            with pytest.raises(UnknownSchedule, match=r"named 'rapport'; did you mean 'report'\? known are: 'report'"):
                call()


@pytest.mark.parametrize("named", [{}, {"duty": "retry", "schedule": "report"}])
def test_one_thing_is_paused_at_a_time(app: App, named: dict[str, str]) -> None:
    with pytest.raises(BadArgument, match="it must be one of queue=, kind=, service=, duty="):
        app.pause("5m", **named)  # type: ignore[arg-type]
