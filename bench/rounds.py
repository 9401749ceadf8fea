"""The rounds: servers and environments first, then every part with every peer in turn, each in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine, servers
from bench.environments import ROOT, NotInstalled, python_of, versions_in
from bench.lineup import Entry
from bench.marks import Marks
from bench.place import Place
from bench.plan import Plan
from bench.processes import server_seconds
from bench.records import Record, Run, write
from bench.servers import Missing, Server

MOST_SECONDS = 1_800
"""How long one measurement may take, with a backlog of a million jobs."""


class Bench:
    def __init__(self, plan: Plan, results: Path) -> None:
        self._plan = plan
        self._results = results
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._servers: dict[str, Server] = {}
        self._missing: dict[str, str] = {}

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mulligan-bench-")))
            self._start_servers(stack)
            self._check_environments()
            marks = Marks.create()
            stack.callback(marks.remove)
            write(self._results, self._describe())
            for number, part, entry in self._plan.steps(self._missing):
                record = self._measure(number, part, entry)
                write(self._results, record)
                say(record)

    def _start_servers(self, stack: contextlib.ExitStack) -> None:
        stores = {entry.store for entry in self._plan.entries}
        for store, server in (("postgres", servers.postgres()), ("redis", servers.redis(self._folder))):
            if store in stores:
                try:
                    self._servers[store] = stack.enter_context(server)
                except Missing as error:
                    self._exclude(str(error), store=store)

    def _check_environments(self) -> None:
        for environment in sorted({entry.environment for entry in self._plan.entries}):
            try:
                python_of(environment)
            except NotInstalled as error:
                self._exclude(str(error), environment=environment)

    def _exclude(self, reason: str, **matching: str) -> None:
        for entry in self._plan.entries:
            if all(getattr(entry, name) == value for name, value in matching.items()):
                self._missing.setdefault(entry.name, reason)

    def _describe(self) -> Run:
        environments = {entry.environment for entry in self._plan.entries if entry.name not in self._missing}
        return Run(
            started=self._started,
            machine=machine.describe(self._folder),
            versions={
                "servers": {store: server.version for store, server in self._servers.items()},
                **{environment: versions_in(environment) for environment in sorted(environments)},
            },
            settings={"PostgreSQL": servers.POSTGRES, "Redis": servers.REDIS},
            sizes=asdict(self._plan.sizes),
            rounds=self._plan.rounds,
            troubles=self._missing,
        )

    def _measure(self, number: int, part: str, entry: Entry) -> Record:
        idle, syncs = machine.wait_until_quiet(self._plan.quiet_wait), machine.syncs(self._folder)
        before, used, start = machine.Times.now(), self._used(), time.monotonic()
        answer = self._ask(part, entry)
        seconds, after, used = time.monotonic() - start, machine.Times.now(), self._used() - used
        return Record(
            self._started,
            number,
            part,
            entry.name,
            figures=answer.get("figures", {}),
            trouble=answer.get("trouble"),
            seconds=seconds,
            idle=idle,
            foreign=max(0.0, after.busy - before.busy - used) / seconds,
            stolen=(after.stolen - before.stolen) / seconds,
            syncs=syncs,
        )

    def _used(self) -> float:
        """CPU time of everything that was started here."""
        return machine.own_seconds() + sum(server_seconds(server.pid) for server in self._servers.values())

    def _ask(self, part: str, entry: Entry) -> dict[str, Any]:
        sizes = json.dumps(asdict(self._plan.sizes))
        process = subprocess.Popen(
            [python_of(entry.environment), "-m", "bench.client", entry.name, part, sizes],
            cwd=ROOT,
            # Where the last is set, each program that is started compiles everything again.
            env={
                **os.environ,
                **self._place(entry).variables(),
                "PYTHONPATH": str(ROOT),
                "PYTHONDONTWRITEBYTECODE": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            output, errors = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        lines = [line for line in output.splitlines() if line.startswith("{")]
        answer: dict[str, Any] = json.loads(lines[-1]) if lines else {"trouble": errors.strip()[-500:] or "no answer"}
        return answer

    def _place(self, entry: Entry) -> Place:
        postgres, redis = self._servers.get("postgres"), self._servers.get("redis")
        own = self._servers.get(entry.store)
        return Place(
            self._folder,
            postgres=postgres.url if postgres else "",
            redis=redis.url if redis else "",
            server=own.pid if own else 0,
        )


def say(record: Record) -> None:
    shown = record.trouble or ", ".join(f"{name} {value:,.5g}" for name, value in record.figures.items())
    busy = f"  (others use {record.foreign:.1f} CPUs)" if record.foreign > machine.QUIET_FOREIGN else ""
    title = f"round {record.round + 1}  {record.part:<16} {record.peer:<18} {record.seconds:5.1f} s"
    print(f"{title}  {shown}{busy}", file=sys.stderr, flush=True)
