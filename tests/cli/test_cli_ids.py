"""The beginning or the end of an id is enough, if it is unique."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from mulligan import App, FinalError, JobFilter, State
from mulligan.cli.root import root

Invoke = Callable[..., Result]
Enqueue = Callable[..., str]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")

# What takes an id, with a word in the place of each.
COMMANDS = """
jobs show JOB
jobs explain JOB
jobs last-failures JOB
jobs retry JOB
jobs run-now JOB
jobs cancel LIVE
jobs snooze LIVE 1h
jobs position LIVE
jobs expire-result DONE
jobs release-key DONE
jobs list --id JOB --batch BATCH --group GROUP
jobs counts --id JOB --batch BATCH --group GROUP
jobs export --id JOB --batch BATCH --group GROUP
jobs purge --older-than 1s --id JOB --batch BATCH --group GROUP
bulk cancel --id LIVE --batch BATCH --group GROUP --preview
bulk run-now --id JOB --batch BATCH --group GROUP --preview
bulk snooze 1h --id LIVE --batch BATCH --group GROUP --preview
redrive --id JOB --batch BATCH --group GROUP --preview
redrive show REDRIVE
redrive cancel REDRIVE
batches show BATCH
batches publish BATCH
batches retry BATCH
batches cancel BATCH
failures show GROUP
failures retry GROUP --preview
failures ignore GROUP
failures resolve GROUP
failures reopen GROUP
events --job JOB --batch BATCH
history --batch BATCH
subscriptions add --name new --type job.failed --webhook https://example.org/new --batch BATCH --group GROUP
subscriptions show SUBSCRIPTION
subscriptions disable SUBSCRIPTION
subscriptions enable SUBSCRIPTION
subscriptions rotate SUBSCRIPTION
subscriptions test SUBSCRIPTION
subscriptions remove SUBSCRIPTION
deliveries list --subscription SUBSCRIPTION --digest DELIVERY
deliveries list --about JOB
deliveries list --about BATCH
deliveries show DELIVERY
deliveries redeliver DELIVERY
hooks create --name new --batch BATCH
hooks create --name new --group GROUP
hooks remove HOOK
keys link KEY
keys revoke KEY
"""
# Texts that no part of an id can be given for. Types other than text are no ids.
NO_IDS = {
    "are names": "app check code duty intake kind last_code name of_owner owner"
    " prefix queue schedule service tag version",
    "are printed whole, by `workers` and by the previous page": "worker cursor",
    "are chosen by the caller": "request_id actor reason",
    "are addresses and secrets": "database email host key root_path server url webhook",
    "are quantities and kinds of events": "delay rate threshold types",
}
# A digest of a subscription is a time, in another command it is a delivery.
DURATIONS = {("subscriptions add", "digest")}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A database with one record of each kind, and their ids."""
    path = tmp_path_factory.mktemp("ids") / "jobs.db"
    with App(f"sqlite:///{path}") as app:

        @app.task
        def fine() -> str:
            return "done"

        @app.task
        def bad() -> None:
            raise FinalError("not a PDF", code="NOT_PDF")

        channel = {"channel": "webhook", "to": "https://example.org/hook"}
        subscription = app.subscribe("told", types=["job.failed", "batch.settled"], **channel).subscription
        batch = app.batch("spring")
        (job,) = batch.add(bad.bind())
        batch.publish()
        done = fine.options(dedupe="once", dedupe_scope="succeeded").enqueue()
        app.run_until_idle(timeout="20s")
        for duty in ("project", "notify"):
            app.run_duty(duty)
        live = fine.options(delay="1h").enqueue()
        (group,) = app.failures().groups
        ids = {
            "JOB": job.id,
            "LIVE": live.id,
            "DONE": done.id,
            "BATCH": batch.id,
            "GROUP": group.id,
            "REDRIVE": app.redrive(JobFilter(state=State.FAILED), rate="1/h").id,
            "SUBSCRIPTION": subscription.id,
            "DELIVERY": app.deliveries(about=job.id)[0].id,
            "HOOK": app.create_hook("partner", group=group.id).hook.id,
            "KEY": app.create_key(owner=None, name="ann").key.id,
        }
    return path, ids


@pytest.mark.parametrize("line", COMMANDS.split("\n")[1:-1])
def test_a_part_of_an_id_means_what_the_whole_id_does(
    invoke: Invoke, stored: tuple[Path, dict[str, str]], tmp_path: Path, line: str
) -> None:
    path, ids = stored
    shutil.copy(path, tmp_path / "jobs.db")

    def call(**given: str) -> Result:
        return invoke(*(given.get(word, ids.get(word, word)) for word in line.split()), *HERE, "--json")

    used = [word for word in line.split() if word in ids]
    found = call(**{word: ids[word][-6:] for word in used})
    assert (found.exit_code, found.stderr) == (0, "")
    for word in used:
        if ids[word] not in found.stdout:
            refused = call(**{word: "123xyz"})
            assert (refused.exit_code, "no id begins with that" in refused.stderr) == (4, True), word


def test_each_option_and_argument_that_is_an_id_may_be_given_in_part() -> None:
    """Each text is listed: as an id in `COMMANDS`, or as none, with the reason."""
    tested = {place for line in COMMANDS.split("\n")[1:-1] for place in ids_in(line.split())}
    no_ids = {name for names in NO_IDS.values() for name in names.split()}
    texts = {
        (path, parameter.name)
        for path, command in every_command(root, "")
        for parameter in command.params
        if parameter.type.name == "text" and parameter.name not in no_ids
    }
    assert texts - DURATIONS == tested


def every_command(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from every_command(found, f"{path} {name}".strip())


def ids_in(words: list[str]) -> set[tuple[str, str | None]]:
    """The command of a line and its parameters that get an id."""
    path, command = max(
        (each for each in every_command(root, "") if words[: len(each[0].split())] == each[0].split()),
        key=lambda each: len(each[0]),
    )
    rest = words[len(path.split()) :]
    options, _, _ = command.make_parser(click.Context(command)).parse_args(list(rest))
    given = {name: value if isinstance(value, tuple | list) else (value,) for name, value in options.items()}
    return {(path, name) for name, values in given.items() if any(str(each).isupper() for each in values)}


@pytest.mark.parametrize("cut", [lambda id_: id_[-6:], lambda id_: id_[-12:], lambda id_: id_[:30]])
def test_a_short_id_names_the_job(invoke: Invoke, enqueue: Enqueue, cut: Callable[[str], str]) -> None:
    enqueue()
    job = enqueue("bad", run=True)
    said = invoke("jobs", "show", cut(job), *HERE, "--json")
    assert (said.exit_code, said.stderr) == (0, "") and job in said.stdout


@pytest.mark.parametrize(("verb", "more"), [("cancel", ()), ("snooze", ("1h",))])
def test_the_end_of_an_id_is_enough_to_move_a_job(
    invoke: Invoke, enqueue: Enqueue, works: App, verb: str, more: tuple[str, ...]
) -> None:
    job, other = enqueue(), enqueue()
    assert invoke("jobs", verb, job[-8:], *more, *HERE).stdout.startswith(f"{job} ")
    assert works.job(job).state != "queued" and works.job(other).state == "queued"


def test_two_short_ids_of_one_job_move_it_once(
    invoke: Invoke, enqueue: Enqueue, read_json: ReadJson, works: App
) -> None:
    job = enqueue("bad", run=True)
    found = read_json(invoke("jobs", "retry", job, job[-8:], job[-6:], *HERE, "--json"))
    assert [one["id"] for one in found["jobs"]] == [job] and found["errors"] == []
    assert works.job(job).manual_retries == 1


def test_an_ambiguous_short_id_lists_the_candidates_and_changes_nothing(
    invoke: Invoke, enqueue: Enqueue, works: App
) -> None:
    jobs = [enqueue() for _ in range(7)]
    refused = invoke("jobs", "cancel", jobs[0][:6], *HERE)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"Error: {jobs[0][:6]!r} matches more than one job: {', '.join(reversed(jobs[2:]))}, …; give more of the id\n"
    )
    assert {works.job(job).state for job in jobs} == {"queued"}


def test_short_ids_also_name_batches_and_redrives(
    invoke: Invoke, enqueue: Enqueue, works: App, read_json: ReadJson
) -> None:
    batch = works.batch("spring")
    batch.add(works.tasks["convert"].bind("bad"))
    end = batch.id[-8:]
    assert read_json(invoke("batches", "publish", end, *HERE, "--json"))["state"] == "processing"
    works.run_until_idle()
    assert read_json(invoke("batches", "show", end, *HERE, "--json"))["failed"] == 1
    assert len(read_json(invoke("jobs", "list", "--batch", end, *HERE, "--json"))["jobs"]) == 1
    begun = read_json(invoke("redrive", "--batch", end, "--yes", *HERE, "--json"))
    assert begun["filter"] == {"state": "failed", "batch": batch.id}
    assert read_json(invoke("redrive", "show", begun["id"][-8:], *HERE, "--json"))["id"] == begun["id"]
    assert read_json(invoke("redrive", "cancel", begun["id"][-8:], *HERE, "--json"))["state"] == "cancelled"
    assert len(read_json(invoke("batches", "retry", end, *HERE, "--json"))["retried"]) == 1
    assert read_json(invoke("batches", "cancel", end, *HERE, "--json"))["cancelled"] == 1


def test_lists_show_short_ids_that_name_the_job(invoke: Invoke, enqueue: Enqueue, read_json: ReadJson) -> None:
    jobs = [enqueue(), enqueue()]
    shown = [line.split()[0] for line in invoke("jobs", "list", *HERE).stdout.splitlines()[1:]]
    assert shown == [job[-12:] for job in reversed(jobs)]
    assert [read_json(invoke("jobs", "show", end, *HERE, "--json"))["id"] for end in shown] == jobs[::-1]
