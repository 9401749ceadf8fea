"""The README's example is run as a newcomer would run it."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [text for found, text in fenced if found == language]


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150


def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    example, sandboxed = blocks("python")
    (tmp_path / "shop.py").write_text(example)
    done = subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    promised = next(block for block in blocks("") if block.startswith("succeeded"))
    assert done.stdout == promised
    (tmp_path / "test_shop.py").write_text(f"from shop import app, ship\n{sandboxed}")
    done = subprocess.run([sys.executable, "test_shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, check=True, timeout=60)
    listed = [line.split("#")[0].split() for line in "\n".join(blocks("")).splitlines() if line.startswith("mulligan")]
    commands = [command[1:] for command in listed if "--app" in command and "--follow" not in command]
    assert len(commands) == 3
    job = subprocess.run(
        [sys.executable, "-m", "mulligan", "--app", "shop:app", "--json", "jobs", "list", "--limit", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    job_id = re.findall(r'"id": ?"([0-9a-f-]+)"', job)[0]
    for command in commands:
        arguments = [job_id if word == "ID" else word for word in command]
        done = subprocess.run(
            [sys.executable, "-m", "mulligan", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout
