"""Chaos on one SQLite file: kills and freezes at random instants, others that hold its lock or read for long."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from chaos.chaos_run import ChaosRun
from chaos.judge import check_evidence
from chaos.plan import KILLS, SEED, Fault, planned
from chaos.workers import TESTS


def test_nothing_is_lost_doubled_or_forgotten_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    holders: list[subprocess.Popen[bytes]] = []

    def hold(fault: Fault) -> None:
        what = "write" if fault.what == "lock" else "read"
        arguments = ["-m", "chaos.holder", str(path), what, str(fault.seconds)]
        holders.append(subprocess.Popen([sys.executable, *arguments], cwd=TESTS, stderr=subprocess.DEVNULL))

    def kill_holder(_fault: Fault) -> None:
        for holder in holders[-1:]:
            holder.kill()

    strikes = {"lock": hold, "snapshot": hold, "kill holder": kill_holder}
    plan = planned(SEED, kills=KILLS, others={"lock": 4.0, "snapshot": 3.0, "kill holder": 5.0})
    try:
        evidence = ChaosRun(tmp_path, f"sqlite:///{path}", strikes=strikes).run(plan)
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
    check_evidence(evidence)
    assert [event.position for event in evidence.events] == list(range(1, len(evidence.events) + 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
