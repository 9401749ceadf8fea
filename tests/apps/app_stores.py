"""On which stores the tests of applications run."""

import os
from pathlib import Path

import pytest

IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
# Where the store does not matter, the second one is tried in the soak.
USUAL = ["sqlite", "postgres"] if IS_SOAK else ["sqlite"]


@pytest.fixture(params=USUAL)
def usual_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, for tests to which all stores are the same."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/app.db"
    url: str = request.getfixturevalue("server").fresh_database("usual")
    return url
