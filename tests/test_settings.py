import os
import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from mulligan import App, RetryPolicy
from mulligan.errors import BadSetting, ConfigurationError
from mulligan.failure.policy import schedule
from mulligan.service.config import Service
from mulligan.settings import READERS, Settings, field_of, load


def test_the_environment_goes_before_the_file_and_the_file_before_the_code(tmp_path: Path) -> None:
    code = {"database_url": "sqlite:///code.db", "worker_concurrency": 1}
    assert load(code, environment={}, folder=tmp_path).database_url == "sqlite:///code.db"
    (tmp_path / "mulligan.toml").write_text('database_url = "sqlite:///file.db"\nworker_concurrency = 2\n')
    assert load(code, environment={}, folder=tmp_path).database_url == "sqlite:///file.db"
    settings = load(code, environment={"MULLIGAN_DATABASE_URL": "sqlite:///env.db"}, folder=tmp_path)
    assert (settings.database_url, settings.worker_concurrency) == ("sqlite:///env.db", 2)


def test_an_app_gives_defaults_of_its_own_and_the_environment_overrides_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_RETENTION_FAILED", "9d")
    given = {
        "metrics_prefix": "",
        "retention_succeeded": None,
        "retention_failed": timedelta(days=1),
        "stuck": "report",
    }
    found = App("sqlite:///jobs.db", stuck="requeue", settings=given).settings
    assert (found.metrics_prefix, found.retention_succeeded) == ("", None)
    assert (found.retention_failed, found.stuck, found.database_url) == (
        *(timedelta(days=9), "requeue"),
        "sqlite:///jobs.db",
    )
    with pytest.raises(ConfigurationError, match=r"no setting is named 'lease_ttl'; did you mean 'worker_lease_ttl'\?"):
        App(settings={"lease_ttl": timedelta(seconds=5)})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("MULLIGAN_WORKER_CONCURRENCY", "many", "an integer from 1 to 10,000"),
        ("MULLIGAN_WORKER_CONCURRENCY", "0", "an integer from 1 to 10,000"),
        ("MULLIGAN_WORKER_LEASE_TTL_SEC", "-5", "between 1s and 1d"),
        ("MULLIGAN_RETRY_MAX_ATTEMPTS", "3.5", "an integer"),
        ("MULLIGAN_RETRY_BASE_DELAY_MS", "5s", "a number of milliseconds"),
        ("MULLIGAN_CIRCUIT_WINDOW", "0", "a number of calls from 1 to 500, or a duration between 1s and 1h"),
        ("MULLIGAN_CIRCUIT_WINDOW", "2h", "such as '2m'"),
        ("MULLIGAN_CIRCUIT_WINDOW", "all", "such as '2m'"),
        ("MULLIGAN_CIRCUIT_FAIL_THRESHOLD", "0", "a fraction above 0, at most 1"),
        ("MULLIGAN_CIRCUIT_FAIL_THRESHOLD", "nan", "a fraction above 0, at most 1"),
        ("MULLIGAN_CIRCUIT_MOST_NAMES", "0", "an integer from 1 to 10,000"),
        ("MULLIGAN_CIRCUIT_COOLDOWN_MS", "30s", "a number of milliseconds between 100ms and 1d"),
        ("MULLIGAN_REQUEST_RATE", "fast", "a rate such as '200/s'"),
        ("MULLIGAN_REQUEST_RATE", "0/s", "at least one a day and at most 10,000 a second"),
        ("MULLIGAN_FAILED_REQUEST_RATE", "20000/s", "at least one a day and at most 10,000 a second"),
        ("MULLIGAN_TRUSTED_PROXIES", "proxy", "addresses and networks separated by commas"),
        ("MULLIGAN_TRUSTED_PROXIES", "10.0.0.1/8", "addresses and networks separated by commas"),
        ("MULLIGAN_TRUSTED_PROXIES", "127.0.0.1,", "or 'none'"),
        ("MULLIGAN_WEBHOOK_PORTS", "https", "ports, such as '443,80'"),
        ("MULLIGAN_WEBHOOK_PORTS", "443,0", "ports, such as '443,80'"),
        ("MULLIGAN_WEBHOOK_ALLOWED_NETWORKS", "10.1.2.3/16", "networks, such as '10.1.0.0/16,fd00::/8'"),
        ("MULLIGAN_WEBHOOK_ALLOWED_NETWORKS", "office", "networks, such as '10.1.0.0/16,fd00::/8'"),
        ("MULLIGAN_PUBLIC_URL", "jobs.example.org", "https://host or https://host/path"),
        ("MULLIGAN_PUBLIC_URL", "https://jobs.example.org/?page=1", "https://host or https://host/path"),
        ("MULLIGAN_LOG_LEVEL", "LOUD", "one of DEBUG, INFO, WARNING, ERROR"),
    ],
)
def test_a_bad_value_stops_the_start_with_its_name_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load(environment={name: value})
    assert name in str(raised.value)
    assert repr(value) in str(raised.value)
    assert allowed in str(raised.value)


def test_an_unknown_key_in_the_file_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "mulligan.toml").write_text("concurrency = 3\n")
    with pytest.raises(ConfigurationError, match=r"unknown key 'concurrency'; did you mean 'worker_concurrency'\?"):
        load(environment={}, folder=tmp_path)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mulligan.toml").write_text("worker_concurrency: 3\n")
    with pytest.raises(ConfigurationError, match="is not TOML"):
        load(environment={}, folder=tmp_path)


def test_a_file_that_is_none_or_too_large_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mulligan.toml"
    os.mkfifo(file)
    with pytest.raises(ConfigurationError, match="cannot be read: it is a pipe, not a file"):
        load(environment={}, folder=tmp_path)
    file.unlink()
    file.write_text("#" * (2**20 + 1))
    with pytest.raises(ConfigurationError, match="it takes more than 1,048,576 bytes, which is the limit"):
        load(environment={}, folder=tmp_path)


def test_retry_variables_replace_the_default_policy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_RETRY_MAX_ATTEMPTS", "3")
    monkeypatch.setenv("MULLIGAN_RETRY_BASE_DELAY_MS", "5000")
    monkeypatch.setenv("MULLIGAN_RETRY_JITTER_MAX_MS", "5000")
    app = App("sqlite:///:memory:")

    @app.task
    def plain() -> None: ...

    @app.task(retry=RetryPolicy(9))
    def own() -> None: ...

    assert own.retry.max_attempts == 9
    shortest = [row.shortest for row in schedule(plain.retry) if row.delay is not None]
    assert shortest == [timedelta(seconds=5), timedelta(seconds=10)]
    assert [row.delay for row in schedule(plain.retry, draw=0.5)][:2] == [
        timedelta(seconds=7.5),
        timedelta(seconds=12.5),
    ]


def test_circuit_variables_are_the_default_of_every_service() -> None:
    assert load(environment={}).default_service == Service("*")
    given = {"WINDOW": "2m", "FAIL_THRESHOLD": "0.25", "COOLDOWN_MS": "5000", "MOST_NAMES": "50"}
    found = load(environment={f"MULLIGAN_CIRCUIT_{name}": value for name, value in given.items()}).default_service
    assert found == Service("*", window="2m", open_at=0.25, cooldown="5s", most=50)
    assert load(environment={"MULLIGAN_CIRCUIT_WINDOW": "5"}).default_service == Service("*", window=5)


def test_a_variable_that_is_nearly_a_setting_is_named_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    environment = {"MULLIGAN_RETNTION_FAILED": "90d", "MULLIGAN_PORT": "tcp://10.0.0.1:80", "RETENTION_FAILD": "1d"}
    for _ in range(2):
        load(environment=environment, folder=tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "MULLIGAN_RETNTION_FAILED is not a setting and is ignored; did you mean MULLIGAN_RETENTION_FAILED?"
    ]


def test_the_guide_to_duties_gives_the_defaults_that_are_in_force() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guides" / "stuck-jobs.md").read_text()
    given = re.findall(r"`MULLIGAN_(DUTY_\w+)` \((\d+)", guide)
    in_force = {field.name: getattr(Settings(), field.name) for field in fields(Settings)}
    in_force["duty_reclaim_interval"] = timedelta(seconds=Settings().duty_bounds("reclaim")["interval"])
    found = {name.lower(): in_force[field_of(name.lower())] for name, _ in given}
    assert {name.lower(): int(value) for name, value in given} == {
        name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in found.items()
    }
    assert len(given) == 16


def test_every_field_has_a_key_and_no_name_of_a_duration_claims_a_unit() -> None:
    names = [field.name for field in fields(Settings)]
    assert sorted(map(field_of, READERS)) == sorted(names)
    assert [name for name in names if name.endswith(("_sec", "_ms"))] == []


def test_trusted_proxies_are_addresses_and_networks() -> None:
    assert load(environment={}).trusted_proxies == ("127.0.0.1", "::1")
    given = {"MULLIGAN_TRUSTED_PROXIES": "10.0.0.7, 10.1.0.0/16, 2001:db8::/32"}
    assert load(environment=given).trusted_proxies == ("10.0.0.7", "10.1.0.0/16", "2001:db8::/32")
    assert load(environment={"MULLIGAN_TRUSTED_PROXIES": "none"}).trusted_proxies == ()


def test_webhooks_reach_what_the_settings_allow() -> None:
    egress = load(environment={}).egress
    assert (egress.ports, egress.allowed) == ((443,), ())
    given = {"MULLIGAN_WEBHOOK_PORTS": "443, 8080", "MULLIGAN_WEBHOOK_ALLOWED_NETWORKS": "10.1.0.0/16,::1"}
    egress = load(environment=given).egress
    assert egress.ports == (443, 8080)
    assert [str(network) for network in egress.allowed] == ["10.1.0.0/16", "::1/128"]


def test_the_public_url_has_no_slash_at_its_end() -> None:
    given = {"MULLIGAN_PUBLIC_URL": "https://jobs.example.org/mulligan/"}
    assert load(environment=given).public_url == "https://jobs.example.org/mulligan"
