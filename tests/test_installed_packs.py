"""Packs of rules that other distributions bring, each really installed: a `dist-info` folder on the path."""

import json
import logging
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mulligan import App, Failure, Rule
from mulligan.failure.packs import BUILT_IN, installed

GUIDE = Path(__file__).parents[1] / "docs/guides/your-own-pack.md"
ACME = """
from mulligan import Rule, Verdict

RULES = [Rule("TEAPOT", "final", status=418, name="acme.teapot"), Rule("ACME_DOWN", "retryable", status=503)]

def moody(failure):
    \"\"\"Anything that mentions the mood.\"\"\"
    return Verdict(code="MOODY", error_class="final", message="Not today.") if "mood" in failure.message else None

MORE = (moody,)
ONE = RULES[0]
"""

Install = Callable[..., None]


def forget() -> None:
    installed.packs.cache_clear()
    sys.modules.pop("acme_rules", None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with these entry points on the path."""
    site = tmp_path / "site"
    site.mkdir()

    def put(entries: str, *, source: str = ACME, project: str = "acme_rules", version: str = "1.2") -> None:
        (site / "acme_rules.py").write_text(source)
        info = site / f"acme_rules-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[mulligan.packs]\n{entries}\n")
        monkeypatch.syspath_prepend(site)
        forget()

    forget()
    yield put
    forget()


class Answered(Exception):
    def __init__(self, status: int, text: str = "no") -> None:
        super().__init__(text)
        self.status = status


def rule_of(app: App, error: Exception, kind: str = "any") -> tuple[str, str]:
    verdict = app.judge.verdict(Failure.of(error), kind)
    return verdict.code, verdict.rule


def test_installed_packs_are_asked_before_ours(app: App, install: Install) -> None:
    assert rule_of(App("sqlite:///:memory:"), Answered(418)) == ("HTTP_4XX", "http.4xx")
    install("acme = acme_rules:RULES")
    assert rule_of(app, Answered(418)) == ("TEAPOT", "acme.teapot")
    assert rule_of(app, Answered(503)) == ("ACME_DOWN", "ACME_DOWN")
    assert rule_of(app, Answered(500)) == ("HTTP_5XX", "http.5xx")


def test_the_task_is_asked_first_then_the_app_then_packs_and_the_rest_is_unknown(
    tmp_path: Path, install: Install
) -> None:
    install("acme = acme_rules:RULES")
    with App(f"sqlite:///{tmp_path}/jobs.db", rules=[Rule("APPS", "final", status=(418, 404))]) as app:

        @app.task(rules=[Rule("TASKS", "final", status=418)])
        def brew() -> None: ...

        assert rule_of(app, Answered(418), "brew") == ("TASKS", "TASKS")
        assert rule_of(app, Answered(418)) == ("APPS", "APPS")
        assert rule_of(app, Answered(404)) == ("APPS", "APPS")
        assert rule_of(app, Answered(503)) == ("ACME_DOWN", "ACME_DOWN")
        assert rule_of(app, ValueError("x")) == ("UNKNOWN", "default")


def test_a_pack_may_have_functions_and_a_distribution_many_packs(app: App, install: Install) -> None:
    install("b = acme_rules:RULES\na = acme_rules:MORE")
    assert [(pack.name, pack.source) for pack in installed.packs()][:2] == [
        ("a", "acme_rules 1.2"),
        ("b", "acme_rules 1.2"),
    ]
    assert rule_of(app, Answered(418, "a mood")) == ("MOODY", "moody")
    assert [pack.name for pack in installed.packs()[2:]] == list(BUILT_IN)


@pytest.mark.parametrize(
    ("entry", "source", "problem"),
    [
        ("acme_rules:RULES", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("acme_rules:RULES", "raise SystemExit('no licence')", "SystemExit: no licence"),
        ("acme_rules:RULES", "from mulligan import Rule; Rule('X', 'fatal', status=1)", "error_class is 'fatal'"),
        ("acme_rules:NONE", ACME, "AttributeError: module 'acme_rules' has no attribute 'NONE'"),
        ("acme_rules:ONE", ACME, "must be a list of Rule(…) or functions of a Failure"),
        ("acme_rules:moody", ACME, "must be a list of Rule(…) or functions of a Failure"),
        ("acme_rules:__name__", ACME, "must be a list of Rule(…) or functions of a Failure"),
        ("not an entry point", ACME, "AttributeError"),
    ],
)
def test_a_broken_pack_is_left_out_and_said(
    app: App, install: Install, caplog: pytest.LogCaptureFixture, entry: str, source: str, problem: str
) -> None:
    install(f"broken = {entry}", source=source)
    with caplog.at_level(logging.WARNING, "mulligan.packs"):
        assert rule_of(app, Answered(418)) == ("HTTP_4XX", "http.4xx")
        assert rule_of(app, Answered(418)) == ("HTTP_4XX", "http.4xx")
    broken = installed.packs()[0]
    assert (broken.name, broken.rules) == ("broken", ())
    assert problem in (broken.problem or "")
    assert len(caplog.messages) == 1
    assert "'broken' of acme_rules 1.2 is left out" in caplog.messages[0]


def test_a_worker_works_with_a_broken_pack_and_a_good_one(
    app: App, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("acme = acme_rules:RULES\nbroken = no_such_module:RULES")

    @app.task
    def brew() -> None:
        raise Answered(418)

    job = brew.enqueue()
    with caplog.at_level(logging.WARNING, "mulligan.packs"):
        app.run_until_idle(timeout="20s")
    assert app.job(job.id).error_code == "TEAPOT"
    assert app.events(job.id)[-1].data["reasons"]["rule"] == "acme.teapot"
    assert sum("is left out" in message for message in caplog.messages) == 1


def test_nothing_is_loaded_before_a_worker_starts(app: App, install: Install) -> None:
    install("acme = acme_rules:RULES")

    @app.task
    def brew() -> None: ...

    brew.enqueue()
    assert "acme_rules" not in sys.modules
    app.run_until_idle(timeout="20s")
    assert "acme_rules" in sys.modules


def listed(tmp_path: Path, *options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "mulligan", "policies", "packs", *options],
        env={"PYTHONPATH": ":".join([str(tmp_path / "site"), *sys.path]), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_packs_are_listed(install: Install, tmp_path: Path) -> None:
    install("acme = acme_rules:RULES\nbroken = no_such_module:RULES\nmood = acme_rules:MORE")
    lines = [line.split() for line in listed(tmp_path).splitlines()]
    assert ["acme,", "from", "acme_rules", "1.2"] in lines
    assert ["acme.teapot", "TEAPOT", "final", "status", "418"] in lines
    assert ["moody", "decided", "by", "the", "function"] in lines
    assert ["http.5xx", "HTTP_5XX", "retryable", "status", "500", "to", "599"] in lines
    assert ["Not", "loaded:", "ModuleNotFoundError:", "No", "module", "named", "'no_such_module'"] in lines


def test_the_guide_shows_what_happens(install: Install, app: App, tmp_path: Path) -> None:
    toml, code, shown = re.findall(r"```(?:toml|python|console)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    project = tomllib.loads(toml)["project"]
    (name, value), *_ = project["entry-points"][installed.GROUP].items()
    install(f"{name} = {value}", source=code, version=project["version"], project=project["name"])
    assert listed(tmp_path).lstrip().startswith(shown.partition("\n")[2].removesuffix("…\n"))
    assert rule_of(app, Answered(403, "Account closed")) == ("ACME_CLOSED", "acme.closed")


def test_packs_are_listed_for_programs(install: Install, tmp_path: Path) -> None:
    install("acme = acme_rules:RULES\nbroken = no_such_module:RULES")
    found = json.loads(listed(tmp_path, "--json"))["packs"]
    assert [pack["name"] for pack in found] == ["acme", "broken", *BUILT_IN]
    assert found[0]["problem"] is None
    assert found[0]["rules"][0] == {
        "name": "acme.teapot",
        "code": "TEAPOT",
        "error_class": "final",
        "when": "status 418",
        "line": "",
    }
    assert found[1]["problem"].startswith("ModuleNotFoundError")
