"""Sixty-four planted secrets in real jobs: none is found in the database files, the log or what the commands print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.errors import without_password
from planted import MARK, MESSAGES, S, app

HERE = Path(__file__).parent
SECONDS = 120
# What must still be told, or masking would be of no use.
TOLD = (
    "Authorization: •••",
    "postgresql://app:•••@db:5432/shop is down",
    "GET https://api.example/v1?page=2&access_token=••• gave 500",
    '{"password": "•••", "user": "ann"}',
    "host=db user=app password=••• dbname=shop",
    "Server=db;User Id=app;Password=•••;Database=shop",
    "DETAIL: Key (api_token)=(•••) already exists.",
    "tool --password ••• --verbose failed",
    "the registered literal ••• stands alone",
    "customer ••• is blocked",
    "tried with token=•••",
    "login failed: password=•••",
    "nothing of the frame is kept",
    "https://api.telegram.org/bot110201543:•••/sendMessage gave 403",
    "app:•••@db:5432 refused",
    "invalid DSN https://•••@errors.example/42",
    "https://discord.com/api/webhooks/123456/••• gave 404",
)


def command(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mulligan", "--app", "planted:app", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All that is left of a run of every planted job, by where it was found."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text((HERE / "planted.py").read_text("utf-8"))
    run = f"""
import logging, planted
from mulligan.logs import configure
configure("DEBUG", "json")
app = planted.app
for number in range(len(planted.MESSAGES)):
    planted.say.enqueue(number)
others = [app.tasks[name].enqueue() for name in app.tasks if name != "say"]
app.run_until_idle(retries=True, timeout={SECONDS})
app.retry(others[0].id, actor="ann", reason="the password={S[59]} was wrong")
app.cancel(others[0].id, actor="token={S[59]}")
app.pause("1h", duty="retry", reason="secret={S[59]}")
# As a killed process leaves it: the write-ahead log is not folded into the file.
import os; logging.shutdown(); os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", run], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes().decode("latin-1") for path in folder.glob("planted.db*")}
    ids = re.findall(r'"id": ?"([0-9a-f-]{36})"', command(folder, "jobs", "list", "--json", "--limit", "100"))
    assert len(ids) == len(MESSAGES) + len(app.tasks) - 1
    shown = [
        command(folder, "jobs", "list"),
        command(folder, "events", "--json", "--after", "0", "--limit", "1000"),
        command(folder, "duties"),
    ]
    shown += [command(folder, "jobs", "explain", ids[0]), command(folder, "jobs", "show", ids[-1], "--detail")]
    return files | {"log": done.stderr, "commands": "\n".join(shown)}


def test_no_planted_secret_is_found_anywhere(traces: dict[str, str]) -> None:
    assert {"planted.db", "planted.db-wal", "log", "commands"} <= set(traces)
    assert len(traces["planted.db-wal"]) > 100_000
    found = [
        (place, text[max(0, at.start() - 80) : at.end() + 20])
        for place, text in traces.items()
        for at in re.finditer(MARK, text)
    ]
    assert found == []
    # Base64 hides the marker.
    assert not [place for place, text in traces.items() if "YW5uOl" in text]


def test_useful_details_are_still_shown(traces: dict[str, str]) -> None:
    shown = traces["commands"].replace('\\"', '"').replace("\\u2022", "•")
    assert [text for text in TOLD if text not in shown] == []


def test_the_log_names_what_was_masked(traces: dict[str, str]) -> None:
    assert "about to fail: Authorization:" in traces["log"]
    assert "child says password=" in traces["log"]


def test_arguments_and_results_are_stored_as_given(tmp_path: Path) -> None:
    """They are the user's own data: a masked password would be a wrong one."""
    from mulligan import App

    with App(f"sqlite:///{tmp_path}/own.db") as own:

        @own.task
        def login(password: str) -> str:
            return f"password={password}"

        job = login.enqueue("hunter2")
        own.run_until_idle(timeout=20)
        assert own.wait(job) == "password=hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:hunter2@db/shop", "postgresql://app:•••@db/shop"),
        ("postgresql://app:a://b@c@db/shop", "postgresql://app:•••@db/shop"),
        ("postgresql://app@db/shop", "postgresql://app@db/shop"),
        ("postgresql://db/shop?user=app&password=hunter2", "postgresql://db/shop?user=app&password=•••"),
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
    ],
)
def test_the_url_of_a_database_is_shown_without_a_password_and_as_it_is_else(url: str, shown: str) -> None:
    assert without_password(url) == shown
