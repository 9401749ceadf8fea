"""`make pythons`: the unit tests on every Python from 3.11 on that this machine has, each in an environment of its own.

They are all tests but those that take minutes by design (`LONG`) and do not depend on the version of Python. What is
given goes to pytest; `PYTHONS="3.12 3.13"` takes some of the versions only.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parent.parent
OLDEST = (3, 11)
LONG = [
    "tests/chaos",
    "tests/simulator",
    "tests/cli/test_cli_demo.py",
    "tests/cli/test_cli_drill.py",
    "tests/failure/test_engine_drill.py",
    "tests/failure/test_service_drill.py",
    "tests/stores/test_store_interleavings.py",
    "tests/stores/test_store_model.py",
    "tests/stores/test_store_postgres_model.py",
    "tests/stores/test_store_service_model.py",
]
ASK = "import sys, venv; print('{}.{}'.format(*sys.version_info))"


def main(options: list[str]) -> int:
    found = dict(sorted(versions()))
    wanted = [_version(name) for name in os.environ.get("PYTHONS", "").split()] or list(found)
    for version in sorted({*supported(), *wanted} - {*found}):
        print(f"Python {_name(version)} is not here", flush=True)
    failed = [version for version in wanted if version in found and not is_well(version, found[version], options)]
    for version in wanted:
        if version in found:
            print(f"Python {_name(version)} ({found[version]}): {'failed' if version in failed else 'passed'}")
    return 1 if failed or not set(wanted) <= set(found) else 0


def versions() -> Iterator[tuple[tuple[int, int], Path]]:
    """Of several of one version the one found first: on the PATH, then pyenv's."""
    seen: set[tuple[int, int]] = set()
    for program in candidates():
        ended = subprocess.run([program, "-c", ASK], capture_output=True, text=True, check=False)
        if ended.returncode == 0 and (version := _version(ended.stdout)) >= OLDEST and version not in seen:
            seen.add(version)
            yield version, program


def candidates() -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield from sorted(path for path in Path(folder).glob("python3*") if re.fullmatch(r"python3(\.\d+)?", path.name))
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
        yield from sorted(Path(root).glob("versions/*/bin/python3"))


def supported() -> set[tuple[int, int]]:
    """What the package says of itself."""
    text = (HOUSE / "pyproject.toml").read_text("utf-8")
    return {_version(name) for name in re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)}


def is_well(version: tuple[int, int], program: Path, options: list[str]) -> bool:
    missing = [path for path in LONG if not (HOUSE / path).exists()]
    assert not missing, f"these are no tests any more: {missing}"
    print(f"Python {_name(version)} ({program})", flush=True)
    environment = HOUSE / f".venv-{_name(version)}"
    install(program, environment)
    ignored = [f"--ignore={path}" for path in LONG]
    command = [environment / "bin" / "pytest", "-q", "-n", "2", "--dist", "worksteal", *ignored, *options]
    return subprocess.run(command, cwd=HOUSE, check=False).returncode == 0


def install(program: Path, environment: Path) -> None:
    """Once, and again when what is needed has changed."""
    needs = [HOUSE / "pyproject.toml", HOUSE / "constraints.txt"]
    ready = environment / ".ready"
    if ready.exists() and all(ready.stat().st_mtime >= path.stat().st_mtime for path in needs):
        return
    subprocess.run([program, "-m", "venv", "--clear", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", "constraints.txt", "-e", ".[dev]"], cwd=HOUSE, check=True)
    ready.touch()


def _version(name: str) -> tuple[int, int]:
    major, minor = name.strip().split(".")[:2]
    return int(major), int(minor)


def _name(version: tuple[int, int]) -> str:
    return "{}.{}".format(*version)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
