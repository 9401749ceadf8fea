"""The benchmark's own logic: what it chooses, how it computes, and that its report says what was measured."""

# ruff: noqa: RUF001 - people read real dashes and multiplication signs

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.lineup import BY_NAME, LINEUP
from bench.marks import VARIABLE, Boom, Marks, given
from bench.parts import PARTS
from bench.picture import picture
from bench.plan import Plan, choose_entries, choose_parts
from bench.processes import tree
from bench.records import Record, Run, read, write
from bench.report import ahead, document, targets, troubles, warning
from bench.results import DRAIN, GAPS_P50, Results
from bench.sizes import SMALL, WHOLE
from bench.statistics import Spread, percentile, ratio

OURS, PEER = "mulligan-postgres", "pgqueuer"
ROOT = Path(__file__).parent.parent


def drained(peer: str, *rates: float, run: str = "a") -> list[Record]:
    return [Record(run, number, "drain", peer, {"jobs/s": rate}) for number, rate in enumerate(rates)]


def a_run(**values: object) -> Run:
    known: dict[str, object] = {
        "started": "a",
        "machine": {"processor": "2 cores"},
        "versions": {"peers": {"pgqueuer": "1.6.0"}},
        "settings": {"PostgreSQL": {"fsync": "on"}},
        "sizes": dict(vars(WHOLE)),
        "rounds": 3,
        "troubles": {},
    }
    return Run(**{**known, **values})  # type: ignore[arg-type]


# Statistics


def test_a_spread_is_the_median_with_the_least_and_the_most() -> None:
    assert Spread.over([5, 1, 3]) == Spread(median=3, least=1, most=5, rounds=3)
    assert Spread.over([]) is None


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 51), (99, 100), (100, 101)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile(range(101, 0, -1), percent) == value


def test_a_ratio_is_taken_in_each_round_that_has_both() -> None:
    ours = {("a", 0): 20.0, ("a", 1): 30.0, ("b", 0): 90.0}
    theirs = {("a", 0): 10.0, ("a", 1): 10.0, ("a", 2): 1.0}
    assert ratio(ours, theirs) == Spread(median=2.5, least=2, most=3, rounds=2)


# What is chosen


def test_mulligan_and_the_raw_stores_are_measured_beside_every_choice() -> None:
    chosen = {entry.name for entry in choose_entries([PEER], "postgres")}
    assert chosen == {OURS, PEER, "raw-fastapi", "raw-loop", "raw-postgres"}


def test_growth_means_all_its_parts_and_drain_only_itself() -> None:
    assert choose_parts(["drain"]) == ["drain"]
    assert len(choose_parts(["growth"])) == 6
    assert choose_parts([]) == list(PARTS)


def test_what_does_not_exist_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="no part drian"):
        choose_parts(["drian"])
    with pytest.raises(ValueError, match="no peer sidekiq"):
        choose_entries(["sidekiq"], None)


def test_each_round_begins_with_another_peer_and_leaves_out_what_is_missing() -> None:
    plan = Plan(choose_entries([PEER, "oban"], "postgres"), ["bulk", "reading"], rounds=2, sizes=SMALL, quiet_wait=0)
    steps = [(number, part, entry.name) for number, part, entry in plan.steps({"oban": "no Python 3.12"})]
    assert steps == [
        (0, "bulk", OURS),
        (0, "bulk", PEER),
        (0, "bulk", "raw-postgres"),
        (0, "reading", OURS),
        (1, "bulk", PEER),
        (1, "bulk", "raw-postgres"),
        (1, "bulk", OURS),
    ]


def test_every_entry_names_parts_a_module_and_an_environment_that_exist() -> None:
    for entry in LINEUP:
        assert entry.parts <= set(PARTS)
        assert (ROOT / "bench" / "peers" / f"{entry.module}.py").exists()
        assert (ROOT / "bench" / "requirements" / f"{entry.environment}.txt").exists()
        assert entry.help or "startup" not in entry.parts
    assert len(BY_NAME) == len(LINEUP)


# What is seen of jobs and of processes


def test_marks_say_what_bodies_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    marks = Marks.create()
    try:
        assert not marks.has_begun(10)
        given().succeed(3)
        for _ in range(2):
            with pytest.raises(Boom):
                given().fail_twice(4)
        assert (marks.done(10), marks.has_begun(10), marks.tried_more_than(1, 10)) == (1, True, 1)
        given().fail_twice(4)
        assert (marks.done(10), marks.is_done(4)) == (2, True)
        assert [bool(began) for began in marks.beginnings(5)] == [False, False, False, True, True]
    finally:
        marks.remove()


def test_a_process_and_its_children_are_found_with_their_memory() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()
    found = {process.pid: process for process in tree(os.getpid())}
    child.communicate(b"\n")
    assert found[child.pid].parent == os.getpid()
    assert found[child.pid].memory > 1_000_000
    assert found[os.getpid()].seconds > 0
    assert tree(child.pid) == []


# Results and the report


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    run, records = a_run(), drained(OURS, 10.5, 20)
    for line in (run, *records):
        write(tmp_path / "results.jsonl", line)
    assert read([tmp_path / "results.jsonl"]) == ([run], records)


@pytest.mark.parametrize(("ours", "said"), [(135.0, "| met |"), (134.0, "| missed |")])
def test_a_target_is_met_from_its_bound_on(ours: float, said: str) -> None:
    rows = targets(Results([*drained(OURS, ours), *drained(PEER, 100)])).splitlines()
    assert [row for row in rows if "≥ 1.35 × pgqueuer" in row and said in row]


def test_no_target_is_judged_by_a_busy_machine_or_by_few_jobs() -> None:
    records = [*drained(OURS, 200), *drained(PEER, 100)]
    busy = [Record("a", 0, record.part, record.peer, record.figures, foreign=1.0) for record in records]
    assert "| met |" in document([a_run()], records)
    assert "| not judged: busy machine |" in document([a_run()], busy)
    assert "| not judged: too few jobs |" in document([a_run(sizes=dict(vars(SMALL)))], records)


def test_less_is_better_for_a_latency() -> None:
    def latency(peer: str, value: float) -> Record:
        return Record("a", 0, "latency", peer, {GAPS_P50.figure: value})

    results = Results([latency(OURS, 3), latency(PEER, 4), latency("oban", 2)])
    row = next(row for row in targets(results).splitlines() if GAPS_P50.title in row)
    assert "2.00 (oban)" in row
    assert "| 0.75 | met |" in row


def test_a_ratio_in_the_report_comes_from_rounds_not_from_medians() -> None:
    # By medians it would be 1: 20 by 20.
    results = Results([*drained(OURS, 10, 20, 30), *drained(PEER, 20, 10, 20)])
    found = results.ratio(OURS, DRAIN, PEER)
    assert found is not None
    assert found.median == 1.5


def test_a_peer_that_is_ahead_is_named_with_what_it_lacks() -> None:
    said = ahead(Results([*drained(OURS, 100), *drained("pgmq", 300), *drained(PEER, 90), *drained("taskiq", 200)]))
    assert "| Drain, one worker, jobs/s | PostgreSQL | 100 | pgmq 300 |" in said
    assert "| Drain, one worker, jobs/s | Redis | 100 | taskiq 200 |" in said
    assert "- pgmq: it is a message queue" in said
    assert "a crash of the server loses every job" in said
    assert PEER not in said


def test_a_busy_machine_and_few_jobs_are_said_first() -> None:
    quiet = drained(OURS, 1)
    busy = [Record("a", 1, "drain", OURS, {"jobs/s": 1.0}, foreign=1.5)]
    assert warning([a_run()], quiet) == ""
    assert "not quiet in 1 of 2 measurements" in warning([a_run()], quiet + busy)
    assert "1.5 CPUs" in warning([a_run()], quiet + busy)
    assert "Fewer jobs" in warning([a_run(sizes=dict(vars(SMALL)))], quiet)


def test_what_could_not_be_measured_says_why() -> None:
    records = [
        Record("a", 0, "drain", PEER, trouble="Stuck: not done\nafter 60 s"),
        Record("a", 0, "drain", "litequeue", {"jobs/s": 1.0, "run too often": 3}),
    ]
    said = troubles([a_run(troubles={"oban": "oban needs Python 3.12, which is not here"})], records)
    assert "- oban: not measured. oban needs Python 3.12, which is not here" in said
    assert "- pgqueuer, drain, round 1: Stuck: not done after 60 s" in said
    assert "- litequeue, drain, round 1: 3 jobs ran more often than they should" in said


def test_the_document_names_figures_versions_and_settings() -> None:
    said = document([a_run()], [*drained(OURS, 100, 110), *drained(PEER, 100, 100)])
    assert "| PostgreSQL | **mulligan-postgres** | 105 | 100–110 |  |" in said
    assert "| PostgreSQL | pgqueuer | 100 | 100–100 | 1.05 (1.00–1.10) |" in said
    assert "- versions, peers: pgqueuer 1.6.0" in said
    assert "asyncpg, uvloop, batch_size 500" in said


def test_the_picture_is_an_image_with_a_bar_for_each() -> None:
    drawn = ElementTree.fromstring(picture([*drained(OURS, 100), *drained(PEER, 50)]))
    bars = [element for element in drawn if element.tag.endswith("rect")]
    assert [bar.get("class") for bar in bars] == ["ours", "peer"]
    assert float(bars[0].get("width", 0)) == 2 * float(bars[1].get("width", 0))


def test_the_committed_document_is_made_by_the_benchmark() -> None:
    said = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert "Do not edit" in said
    assert "## Conditions" in said
    assert (ROOT / "docs" / "benchmarks.svg").exists()
