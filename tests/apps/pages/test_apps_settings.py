"""A setting that cannot work stops the start with one line, which says what is allowed."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from apps.pages.database import Database
from apps.pages.settings import SettingRefused
from apps.screenshots.options import read_options
from apps.watermark.app import Options

INTEGER = "an integer from 1 to 1,099,511,627,776"


@pytest.mark.parametrize(
    ("read", "name", "value", "allowed"),
    [
        (read_options, "SCREENSHOTS_CREDITS", "many", "an integer from 0 to 1,000,000,000"),
        (read_options, "SCREENSHOTS_PORTS", "80,0", "an integer from 1 to 65,535"),
        (read_options, "SCREENSHOTS_ALLOWED", "localhost:80", "a list of address:port, as 127.0.0.1:8080"),
        (Options.read, "WATERMARK_LARGEST_UPLOAD", "1 GB", INTEGER),
        (Options.read, "WATERMARK_LARGEST_UPLOAD", "0", INTEGER),
        (Options.read, "WATERMARK_TIMEOUT", "soon", "a duration, such as 10m"),
        (Options.read, "WATERMARK_WEBHOOK_URL", "example.org", "a URL that begins with http:// or https://"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(
    read: Callable[[Mapping[str, str]], object], name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingRefused, match=f"^{name} is .*, but it must be {allowed}$"):
        read({name: value})


@pytest.mark.parametrize("url", ["nonsense", "u:secret@h", "postgresql://u:secret@h:x/y"])
def test_what_is_no_url_is_no_database_and_is_not_repeated(url: str) -> None:
    with pytest.raises(SettingRefused, match=r"^DATABASE_URL must be a database URL") as refused:
        Database(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        ("apps.pdfxml", "CIRCUIT_MODE", "sometimes", "CIRCUIT_MODE is 'sometimes', but it must be hold or fail_fast"),
        ("apps.watermark", "DATABASE_URL", "mysql://x/y", "only SQLite and PostgreSQL are supported"),
    ],
)
def test_the_command_ends_with_one_line(module: str, name: str, value: str, said: str, tmp_path: Path) -> None:
    path = os.pathsep.join(place for place in sys.path if place)
    ended = subprocess.run(
        [sys.executable, "-m", module, "--port", "0"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, name: value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert said in line
    assert "secret" not in line
