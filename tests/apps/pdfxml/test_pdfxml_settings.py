"""The variables of the environment, and what becomes of them."""

from datetime import timedelta
from pathlib import Path

import pytest
from apps.pages.settings import SettingRefused
from apps.pdfxml.app import create
from apps.pdfxml.settings import READERS, Settings, read_settings


def test_every_variable_is_read() -> None:
    found = read_settings(
        {
            "DATABASE_URL": "postgresql://db/pdf",
            "GATEWAY_URL": "https://gateway.example/",
            "GATEWAY_TIMEOUT_MS": "1500",
            "UPLOADS_DIR": "/srv/in",
            "RESULTS_DIR": "/srv/out",
            "RETRY_MAX_ATTEMPTS": "5",
            "RETRY_BASE_DELAY_MS": "100",
            "RETRY_JITTER_MAX_MS": "50",
            "WORKER_LEASE_TTL_SEC": "30",
            "WORKER_CONCURRENCY": "7",
            "CIRCUIT_WINDOW": "2m",
            "CIRCUIT_FAIL_THRESHOLD": "0.4",
            "CIRCUIT_COOLDOWN_MS": "2000",
            "CIRCUIT_MODE": "fail_fast",
            "RETENTION_DAYS": "3",
            "SESSION_LIVE_JOBS": "4",
            "ADDRESS_UPLOAD_RATE": "5/m",
            "UPLOAD_MAX_BYTES": "1000",
            "RESULT_MAX_BYTES": "2000",
        }
    )
    assert found == Settings(
        database_url="postgresql://db/pdf",
        gateway_url="https://gateway.example",
        gateway_timeout=timedelta(seconds=1.5),
        uploads=Path("/srv/in"),
        results=Path("/srv/out"),
        max_attempts=5,
        base_delay=timedelta(milliseconds=100),
        jitter=timedelta(milliseconds=50),
        lease=timedelta(seconds=30),
        concurrency=7,
        circuit_window="2m",
        circuit_fail_threshold=0.4,
        circuit_cooldown=timedelta(seconds=2),
        circuit_mode="fail_fast",
        retention=timedelta(days=3),
        live_jobs=4,
        upload_rate="5/m",
        largest_upload=1000,
        largest_result=2000,
    )


def test_missing_and_empty_variables_leave_the_defaults() -> None:
    assert read_settings({}) == read_settings(dict.fromkeys(READERS, "  ")) == Settings()
    assert Settings().largest_upload == 50 * 1024 * 1024
    assert (Settings().live_jobs, Settings().retention) == (20, timedelta(days=7))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RETRY_MAX_ATTEMPTS", "0"),
        ("RETRY_MAX_ATTEMPTS", "three"),
        ("RETRY_BASE_DELAY_MS", "-1"),
        ("CIRCUIT_WINDOW", "soon"),
        ("CIRCUIT_WINDOW", "0"),
        ("CIRCUIT_FAIL_THRESHOLD", "50"),
        ("CIRCUIT_MODE", "half"),
        ("ADDRESS_UPLOAD_RATE", "often"),
        ("GATEWAY_URL", "gateway:80"),
        ("UPLOAD_MAX_BYTES", "52428801"),
        ("WORKER_LEASE_TTL_SEC", "0"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_is_allowed(name: str, value: str) -> None:
    with pytest.raises(SettingRefused, match=f"{name} is '{value}', but it must be"):
        read_settings({name: value})


@pytest.mark.parametrize(
    ("window", "attempts", "calls"), [(20, 3, 4), ("2m", 3, 4), (2, 3, 2), (20, 1, 2), (20, 100, 10)]
)
def test_the_breaker_needs_one_call_more_than_a_conversion_has_attempts(
    window: int | str, attempts: int, calls: int
) -> None:
    assert Settings(circuit_window=window, max_attempts=attempts).service(lambda: True).min_calls == calls


def test_lease_and_concurrency_reach_the_engine(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/jobs.db",
        uploads=tmp_path / "in",
        results=tmp_path / "out",
        lease=timedelta(seconds=5),
        concurrency=3,
    )
    found = create(settings).app.settings
    assert (found.worker_lease_ttl, found.worker_concurrency) == (timedelta(seconds=5), 3)
    assert found.metrics_prefix == ""


def test_the_engines_own_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_METRICS_PREFIX", "pdf_")
    settings = Settings(database_url="sqlite:///jobs.db", uploads=tmp_path / "in", results=tmp_path / "out")
    assert create(settings).app.settings.metrics_prefix == "pdf_"
