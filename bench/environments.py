"""A virtual environment for the peers that can share one, and others for those that cannot."""

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "requirements"
LEAST_PYTHON = {"oban": (3, 12)}
ASK = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps({"Python": sys.version.split()[0], **found}))
"""


class NotInstalled(Exception):
    """An environment that cannot be made here."""


@cache
def python_of(environment: str) -> Path:
    """The interpreter of an environment, which is made first if it is not there. Raises NotInstalled.

    The one of mulligan is the one that runs this: the Makefile has made it.
    """
    if environment == "mulligan":
        return Path(sys.executable)
    folder = ROOT / f".venv-bench-{environment}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    requirements = REQUIREMENTS / f"{environment}.txt"
    if not ready.exists() or ready.read_text() != requirements.read_text():
        print(f"installing {folder.name}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run(_interpreter(environment), "-m", "venv", folder)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
        ready.write_text(requirements.read_text())
    return python


def versions_in(environment: str) -> dict[str, str]:
    """The versions of what an environment was made of, and of its Python."""
    names = [line.split("==")[0].split("[")[0] for line in _requirements(environment)]
    answer = subprocess.run(
        [python_of(environment), "-c", ASK, *names], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, str] = json.loads(answer)
    return found


def _requirements(environment: str) -> list[str]:
    lines = (REQUIREMENTS / f"{environment}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _interpreter(environment: str) -> Path:
    least = LEAST_PYTHON.get(environment, (0, 0))
    if sys.version_info >= least:
        return Path(sys.executable)
    sys.path.insert(0, str(ROOT / "tests"))
    from pythons import versions

    for version, program in sorted(versions()):
        if version >= least:
            return program
    raise NotInstalled(f"{environment} needs Python {'.'.join(map(str, least))}, which is not here")


def _run(*command: str | Path) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NotInstalled(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else str(command))
