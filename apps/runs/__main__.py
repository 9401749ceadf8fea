"""`python -m apps.runs`: the verifier with a leaderboard to try it on; `serve`, `status` and `retry` without one."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from apps.pages.command import USAGE, announce
from apps.pages.settings import SettingRefused
from apps.runs import reports
from apps.runs.app import Verifier, open_verifier
from apps.runs.configuration import BadConfiguration
from apps.runs.demo import run_demo_leaderboard, write_configuration
from apps.runs.site import build_site
from apps.runs.words import Word
from apps.runs.working import run_worker
from mulligan import MulliganError

CLASSES = ("final", "retryable", "rate_limited")


@click.group(invoke_without_command=True)
@click.option("--config", default="runs.yaml", show_default=True, type=click.Path(path_type=Path), envvar="RUNS_CONFIG")
@click.option("--url", default=None, help="The database.  [default: DATABASE_URL, or a SQLite file here]")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--leaderboard-port", default=8090, show_default=True, type=click.IntRange(1, 65_535))
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 1_000))
@click.pass_context
def runs(context: click.Context, /, config: Path, url: str | None, **options: Any) -> None:
    """Verify the runs of a leaderboard by replaying them.

    Without a command, it is served together with a leaderboard to try it on. The configuration is written if it is
    missing: change it while the verifier runs.
    """
    context.obj = (url or os.environ.get("DATABASE_URL") or "sqlite:///runs.db", config)
    if context.invoked_subcommand is None:
        _try_it(context.obj, **options)


def _try_it(place: tuple[str, Path], *, host: str, port: int, leaderboard_port: int, concurrency: int) -> None:
    _, config = place
    if write_configuration(config, leaderboard_port):
        click.echo(f"Wrote {config}. Change it while this runs.")
    with run_demo_leaderboard(leaderboard_port) as address, _open(place) as verifier:
        click.echo(f"The leaderboard: {address}/api/categories")
        _serve(verifier, host=host, port=port, concurrency=concurrency, with_worker=True)


@runs.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--no-worker", is_flag=True, help="Only the pages: workers run elsewhere.")
@click.pass_obj
def serve(place: tuple[str, Path], *, host: str, port: int, concurrency: int, no_worker: bool) -> None:
    """Serve the pages, with a worker that polls and verifies."""
    with _open(place) as verifier:
        _serve(verifier, host=host, port=port, concurrency=concurrency, with_worker=not no_worker)


def _serve(verifier: Verifier, *, host: str, port: int, concurrency: int, with_worker: bool) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    application = build_site(verifier).asgi()
    with run_worker(verifier, concurrency=concurrency) if with_worker else nullcontext():
        verifier.app.serve(
            application=application, mounted_at="/ops", host=host, port=port, with_worker=False, announce=announce
        )


@runs.command()
@click.option("--word", type=click.Choice([word.value for word in Word]), help="Only the runs of this word.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def status(place: tuple[str, Path], *, word: str | None, limit: int, as_json: bool) -> None:
    """Show how many runs are in each state, and those with an error."""
    with _open(place) as verifier:
        click.echo(reports.status(verifier, Word(word) if word else Word.ERROR, limit=limit, as_json=as_json))


@runs.command()
@click.argument("run", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All runs that failed for good.")
@click.option("--class", "error_class", type=click.Choice(CLASSES), help="Of --all, only these.")
@click.option("--actor", default=lambda: os.environ.get("USER", "command line"), help="Who retries, for the history.")
@click.option("--reason", default=None, help="Why, for the history.")
@click.pass_obj
def retry(
    place: tuple[str, Path],
    run: tuple[str, ...],
    *,
    is_all: bool,
    error_class: str | None,
    actor: str,
    reason: str | None,
) -> None:
    """Retry runs now that ended with an error, or wait for their next attempt."""
    if bool(run) == is_all:
        raise click.UsageError("name runs, or give --all")
    with _open(place) as verifier:
        wanted = list(run) or reports.failed_runs(verifier, error_class)
        answers = [reports.retry(verifier, each, actor=actor, reason=reason) for each in wanted]
    for answer in answers:
        click.echo(answer.text, err=answer.exit_code != 0)
    if not answers:
        click.echo("No run has failed for good.")
    sys.exit(max((answer.exit_code for answer in answers), default=0))


@contextmanager
def _open(place: tuple[str, Path]) -> Iterator[Verifier]:
    url, config = place
    try:
        with open_verifier(url, config) as verifier:
            verifier.create()
            yield verifier
    except BadConfiguration as problem:
        click.echo(f"{config}: {problem}", err=True)
        sys.exit(USAGE)
    except (MulliganError, SettingRefused) as problem:
        click.echo(str(problem), err=True)
        sys.exit(USAGE)


if __name__ == "__main__":
    runs(prog_name="python -m apps.runs")
