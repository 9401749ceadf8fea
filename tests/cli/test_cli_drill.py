"""`mulligan demo --drill`: two real gateways, a real outage and its report, as in the guide `outage-drill`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mulligan.cli.demo.drill.chart import chart
from mulligan.cli.demo.drill.figures import CallsByStep, figures
from mulligan.cli.demo.drill.plan import STEPS, DrillPlan
from mulligan.cli.demo.drill.report import meaning, moment, picture, table

PLAN = DrillPlan()


def drill(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mulligan", "demo", "--drill", *arguments]


def processes_of(mark: str) -> list[Path]:
    """Found by their environment. Without /proc, none is found."""
    return [path for path in Path("/proc").glob("[0-9]*/environ") if mark.encode() in environment(path)]


def environment(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.xdist_group("demo")
class TestTheCommand:
    def test_a_service_makes_far_fewer_calls_during_the_outage(self, tmp_path: Path) -> None:
        process = subprocess.run(
            drill("--seconds", "12", "--json"),
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert (process.returncode, process.stderr) == (0, "")
        told: dict[str, Any] = json.loads(process.stdout)
        one, other = told["with_service"], told["backoff_alone"]
        assert told["is_whole"]
        assert 0 < 3 * one["calls_into_the_outage"] < other["calls_into_the_outage"]
        assert one["amplification"] < other["amplification"]
        assert one["done"] > 0 < other["done"]
        assert processes_of(str(tmp_path)) == []
        assert list(tmp_path.iterdir()) == []

    def test_ctrl_c_ends_the_drill_and_its_processes(self, tmp_path: Path) -> None:
        environ = {**os.environ, "TMPDIR": str(tmp_path)}
        with subprocess.Popen(
            drill(), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            said, complaints = process.communicate(timeout=20)
        assert (process.returncode, complaints) == (0, "")
        assert "of 65 s: the figures are incomplete" in said
        assert processes_of(str(tmp_path)) == []
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--drill", "--seconds", "5"], "a drill takes 10 to 600 seconds"),
        (["--drill", "--seconds", "601"], "a drill takes 10 to 600 seconds"),
        (["--drill", "--database", "sqlite:///jobs.db"], "the drill has its own app and databases"),
        (["--drill", "--app", "shop:app"], "the drill has its own app and databases"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    arguments: list[str], said: str, invoke: Callable[..., Result]
) -> None:
    result = invoke("demo", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def steps(before: int, during: int, after: int) -> list[int]:
    return [before] * 15 + [during] * 20 + [after] * 30 + [0]


WELL = CallsByStep(calls=steps(40, 1, 40), firsts=steps(40, 0, 39), good=steps(40, 0, 40))
BADLY = CallsByStep(calls=steps(40, 300, 100), firsts=steps(40, 100, 10), good=steps(40, 0, 5))


def test_the_figures_of_a_service_that_recovers() -> None:
    found = figures(PLAN, WELL)
    assert (found.calls_into_the_outage, found.back_after, found.peak) == (20, 0, 1)
    assert (found.goodput_before, found.goodput_after) == (40, 40)
    assert found.amplification == pytest.approx(1_220 / 1_170)


def test_the_figures_of_a_service_that_does_not_recover() -> None:
    found = figures(PLAN, BADLY)
    assert (found.calls_into_the_outage, found.back_after, found.peak) == (6_000, None, 2.5)
    assert found.amplification == pytest.approx(9_000 / 2_300)


def test_a_service_has_recovered_when_its_goodput_stays() -> None:
    good = steps(40, 0, 40)
    good[35:39] = [0, 10, 20, 30]
    assert figures(PLAN, CallsByStep(WELL.calls, WELL.firsts, good)).back_after == 3
    good[45:65] = [0] * 20
    assert figures(PLAN, CallsByStep(WELL.calls, WELL.firsts, good)).back_after is None


@pytest.mark.parametrize("known", range(0, STEPS + 2, 6))
def test_a_drill_that_was_ended_early_is_reported_as_far_as_it_went(known: int) -> None:
    seen = CallsByStep(BADLY.calls[:known], BADLY.firsts[:known], BADLY.good[:known])
    found = figures(PLAN, seen)
    assert table(found, found)
    assert meaning(PLAN, found, found)
    assert moment(PLAN, known, [seen, seen])


def test_the_chart_shows_answered_calls_failed_calls_and_overflow() -> None:
    *rows, axis, times = chart(PLAN, BADLY)
    assert [row[7:].replace(" ", "") for row in rows[-2:]] == ["#" * 15 + "x" * 50, "#" * 15 + "x" * 50]
    assert rows[0] == "      |" + " " * 15 + "^" * 20 + "x" * 30
    assert axis.index("=") == rows[0].index("^")
    assert times.split() == ["0", "s", "15", "s", "35", "s", "65", "s"]


@pytest.mark.parametrize("seconds", [10.0, 65.0, 600.0])
def test_the_picture_fits_a_small_terminal(seconds: float) -> None:
    plan = DrillPlan(seconds)
    lines = picture(plan, seconds / 2, [WELL, BADLY])
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24
    one, other = figures(plan, WELL), figures(plan, BADLY)
    assert max(map(len, [*table(one, other), *meaning(plan, one, other)])) <= 80
    assert len(moment(plan, seconds / 2, [WELL, BADLY])) <= 80


def test_the_sentences_agree_with_the_figures() -> None:
    said = " ".join(meaning(PLAN, figures(PLAN, WELL), figures(PLAN, BADLY)))
    assert "20 calls with a service, 6,000 with backoff alone, 300 times as many" in said
    assert "With a service, it had recovered 0 s after the outage." in said
    assert "With backoff alone, it had not recovered in the 30 s after the outage." in said
