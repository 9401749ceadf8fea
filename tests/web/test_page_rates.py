"""What pages beside the dashboard may do only so often."""

from datetime import timedelta
from pathlib import Path

import pytest
from starlette.requests import Request

from mulligan import App
from mulligan.web import charge, client_network


def test_a_rate_is_used_up_by_its_subject_and_use_alone_on_all_servers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/web.db"
    with App(url) as one, App(url) as two:
        assert [charge(app, "sign-up", "3/d", "192.0.2.1") for app in (one, two, one)] == [None] * 3
        wait = charge(two, "sign-up", "3/d", "192.0.2.1")
        assert wait is not None and timedelta(hours=7) < wait <= timedelta(hours=8)
        assert charge(one, "sign-up", "3/d", "192.0.2.2") is charge(one, "sign-in", "3/d", "192.0.2.1") is None


def test_any_text_can_be_a_subject(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/web.db") as app:
        for subject in ("", "a\x00b", "\ud800", "x" * 100_000):
            assert charge(app, "sign-in", "1/d", subject) is None
            assert charge(app, "sign-in", "1/d", subject) is not None


@pytest.mark.parametrize(
    ("given", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("not an address", "unknown"),
    ],
)
def test_a_client_is_known_by_what_it_cannot_change_of_its_address(given: str, network: str) -> None:
    assert client_network(Request({"type": "http", "client": (given, 1), "headers": []})) == network
