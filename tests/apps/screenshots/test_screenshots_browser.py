"""Faults of the browser are real: it is killed, its pages crash, do not end, or keep it busy."""

import asyncio
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apps.screenshots.browser import Browser, Viewport
from apps.screenshots.capture import Camera
from apps.screenshots.options import Options, find_chromium, parse_endpoints
from no_one import run_as_no_one
from screenshots_make import Resolver
from screenshots_sites import Sites
from screenshots_world import World, make_screenshots, serving

from live import eventually
from mulligan import Egress, JobFilter, State


@pytest.fixture(scope="module")
def browsers() -> list[Browser]:
    return []


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory, sites: Sites, browsers: list[Browser], broken: dict[str, int]
) -> Iterator[World]:
    """A worker whose browser the tests can reach, with little patience."""
    folder = tmp_path_factory.mktemp("watched")
    endpoints = ",".join([sites.endpoint, *(f"127.0.0.1:{port}" for port in broken.values())])
    options = {"page_timeout": timedelta(seconds=2), "allowed": parse_endpoints(endpoints)}
    with opened(folder, sites, browsers, **options) as world:
        yield world


@pytest.fixture(scope="module")
def broken() -> Iterator[dict[str, int]]:
    """The ports of listeners that take no connection, and that end each one without an answer."""
    with socket.socket() as refused, socket.create_server(("127.0.0.1", 0)) as reset:
        refused.bind(("127.0.0.1", 0))

        def end_each() -> None:
            while True:
                try:
                    connection, _ = reset.accept()
                except OSError:
                    return
                connection.recv(1_000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        thread = threading.Thread(target=end_each)
        thread.start()
        yield {"refused": refused.getsockname()[1], "reset": reset.getsockname()[1]}
        reset.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def opened(folder: Path, sites: Sites, browsers: list[Browser], **options: Any) -> Iterator[World]:
    screenshots = make_screenshots(f"sqlite:///{folder}/app.db", folder, sites, **options)

    @screenshots.app.around
    @contextmanager
    def remember(attempt: Any) -> Iterator[None]:
        if isinstance(attempt.resources, Camera) and attempt.resources._browser not in browsers:
            browsers.append(attempt.resources._browser)
        yield

    with serving(screenshots, sites) as world, world.working(concurrency=2):
        yield world


def renderers(browser: Browser) -> list[int]:
    """The processes of pages, found among the children of the browser."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"--type=renderer" in line and is_below(int(folder.name), browser.process):
            found.append(int(folder.name))
    return found


def is_below(process: int, ancestor: int | None) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = parent_of(process)
        except OSError:
            return False
    return False


def parent_of(process: int | None) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(process: int | None) -> bool:
    """A process that ended and was not waited for yet is gone too."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_s2_a_killed_browser_costs_one_retry_and_is_started_again(watched: World, browsers: list[Browser]) -> None:
    job_id = watched.submit(watched.sites.url("/recovers?name=killed&after=1", "killed.test"))
    eventually(lambda: watched.sites.visits["killed"] == 1)
    [browser] = browsers
    assert browser.process is not None
    starts = browser.starts
    os.kill(browser.process, signal.SIGKILL)
    shown = watched.wait(job_id)
    assert (shown["status"], shown["retryCount"]) == ("COMPLETED", 1)
    assert watched.app.job(job_id).last_code == "PROGRAM_CRASHED"
    assert browser.starts == starts + 1


def test_s2_a_driver_that_is_gone_costs_one_retry(watched: World, browsers: list[Browser]) -> None:
    """The browser speaks to no one any more, also if it runs on: it gets no other pages, and ends."""
    assert watched.wait(watched.submit(watched.sites.url()))["status"] == "COMPLETED"
    [browser] = browsers
    old, starts = browser.process, browser.starts
    driver = parent_of(old)
    assert b"run-driver" in Path(f"/proc/{driver}/cmdline").read_bytes()
    os.kill(driver, signal.SIGKILL)
    eventually(lambda: is_gone(driver))
    shown = watched.wait(watched.submit(watched.sites.url(host="driverless.test")))
    assert shown["status"] == "COMPLETED"
    assert shown["retryCount"] <= 1
    assert (browser.starts, is_gone(browser.process)) == (starts + 1, False)
    eventually(lambda: is_gone(old))


def new_browser(sites: Sites, **options: Any) -> Browser:
    egress = Egress(ports=(80, 443), endpoints=parse_endpoints(sites.endpoint), resolve=Resolver())
    return Browser(lambda: find_chromium(Options()), egress, **options)


@pytest.mark.parametrize("how", ["given up", "cancelled"])
def test_s2_a_browser_that_hangs_while_idle_is_replaced(sites: Sites, how: str) -> None:
    """A caller that asks it for a page waits for a bounded time, and ends its use."""
    patience = timedelta(seconds=0.5 if how == "given up" else 60)

    async def visit(browser: Browser) -> str:
        async with browser.page(Viewport()) as (page, _):
            await page.goto(sites.url())
            return await page.title()

    async def run() -> None:
        browser = new_browser(sites)
        try:
            assert await visit(browser) == "A page"
            frozen, driver = browser.process, parent_of(browser.process)
            assert frozen is not None
            os.kill(frozen, signal.SIGSTOP)
            browser._open_within = patience
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None if how == "given up" else 0.5):
                    await visit(browser)
            browser._open_within = timedelta(seconds=60)
            assert await visit(browser) == "A page"
            await asyncio.to_thread(eventually, lambda: is_gone(frozen) and is_gone(driver))
        finally:
            await browser.stop()

    asyncio.run(run())


def test_s2_a_page_that_cannot_be_closed_ends_no_other(sites: Sites) -> None:
    """Its browser is left to the pages that are open, and killed with the last of them."""

    async def run() -> None:
        browser = new_browser(sites, close_within=timedelta(0))
        try:
            async with browser.page(Viewport()) as (other, _):
                async with browser.page(Viewport()):
                    worn_out = browser.process
                await other.goto(sites.url())
                async with browser.page(Viewport()) as (fresh, _):
                    assert browser.process != worn_out
                    await fresh.goto(sites.url())
                assert (await other.title(), browser.starts) == ("A page", 2)
            await asyncio.to_thread(eventually, lambda: is_gone(worn_out))
        finally:
            await browser.stop()

    asyncio.run(run())


def test_s2_a_page_that_crashes_is_tried_again(watched: World, browsers: list[Browser]) -> None:
    job_id = watched.submit(watched.sites.url("/spin", "crashing.test"))
    eventually(lambda: watched.sites.asked["crashing.test/spin"])
    starts = browsers[0].starts
    for process in renderers(browsers[0]):
        os.kill(process, signal.SIGKILL)
    eventually(lambda: watched.app.job(job_id).failures)
    assert watched.app.job(job_id).last_code == "PROGRAM_CRASHED"
    watched.acme.post(f"/screenshots/{job_id}/cancel")
    assert browsers[0].starts == starts


@pytest.mark.parametrize("path", ["/endless", "/spin"])
def test_s2_a_page_that_does_not_end_is_a_timeout_that_is_retried(watched: World, path: str) -> None:
    job_id = watched.submit(watched.sites.url(path, f"{path[1:]}.test"))
    eventually(lambda: watched.app.job(job_id).failures)
    job = watched.app.job(job_id)
    assert job.last_code == "TIMEOUT"
    watched.acme.post(f"/screenshots/{job_id}/cancel")
    # The browser is fit for the next page.
    assert watched.wait(watched.submit(watched.sites.url()))["status"] == "COMPLETED"


def test_s2_connections_that_are_refused_reset_and_empty_are_retried(watched: World, broken: dict[str, int]) -> None:
    urls = {name: f"http://{name}.test:{port}/" for name, port in broken.items()}
    urls["empty"] = watched.sites.url("/empty", "empty.test")
    jobs = {name: watched.submit(url) for name, url in urls.items()}
    eventually(lambda: all(watched.app.job(job).failures for job in jobs.values()))
    found = {name: watched.app.job(job).last_code for name, job in jobs.items()}
    assert found == {"refused": "NETWORK", "reset": "HTTP_BROKEN", "empty": "HTTP_BROKEN"}
    for job in jobs.values():
        assert "job.retried" in [event.type for event in watched.app.events(job=job)]
        watched.acme.post(f"/screenshots/{job}/cancel")


def test_s2_without_a_browser_captures_wait_for_one(tmp_path: Path, sites: Sites) -> None:
    with serving(
        make_screenshots(f"sqlite:///{tmp_path}/app.db", tmp_path, sites, chromium="/nowhere/chromium"), sites
    ) as world:
        job_id = world.submit(sites.url())
        world.app.run_until_idle(timeout="30s")
        job = world.app.job(job_id)
        assert (job.state, job.last_code) == (State.WAITING, "FILE_MISSING")


def test_a_full_disk_is_retried(watched: World) -> None:
    """/dev/full takes every write and stores none: the file of the first attempt is there."""
    watched.app.pause(kind="screenshot")
    job_id = watched.submit(watched.sites.url("/page", "full.test"))
    folder = watched.all.options.results
    folder.mkdir(exist_ok=True)
    (folder / f"unfinished-{job_id}-1.png").symlink_to("/dev/full")
    watched.app.resume(kind="screenshot")
    shown = watched.wait(job_id)
    assert (shown["status"], shown["retryCount"]) == ("COMPLETED", 1)
    assert watched.app.job(job_id).last_code == "DISK_FULL"
    assert not list(folder.glob("unfinished-*"))


# The folder belongs to root, and the worker does not.
FORBIDDEN = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from screenshots_make import make_screenshots
sites = SimpleNamespace(endpoint="127.0.0.1:9")
screenshots = make_screenshots("sqlite:///:memory:", Path(sys.argv[1]), sites, policies=None)
@screenshots.app.task
async def store() -> None:
    await screenshots._store("png", b"x")
def run():
    job = store.enqueue()
    screenshots.app.run_until_idle(timeout="30s")
    return screenshots.app.job(job.id)
assert run().state == "succeeded"
screenshots.options.results.chmod(0o555)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
job = run()
print(job.state, job.last_code)
"""


def test_s2_a_folder_without_permission_is_final() -> None:
    """As every security error of the document."""
    assert run_as_no_one(FORBIDDEN) == ["failed NOT_PERMITTED"]


def test_the_file_of_a_job_that_is_gone_is_removed(watched: World) -> None:
    kept = watched.submit(watched.sites.url())
    assert watched.wait(kept)["status"] == "COMPLETED"
    folder = watched.all.options.results
    name = watched.app.job(kept).result["file"]
    stale = [folder / "01a1ee39-4f9d-72f9-b4ae-ea3620696ba3-1.png", folder / f"{kept}-7.png", folder / "unfinished-x"]
    for path in (*stale, folder / name):
        path.touch()
        os.utime(path, (0, 0))
    watched.app.run_schedule("remove_old_files")
    eventually(lambda: not any(path.exists() for path in stale))
    assert (folder / name).exists()
    (folder / name).unlink()
    answer = watched.acme.get(f"/screenshots/{kept}/result")
    assert (answer.status_code, answer.json()["error"]) == (404, "EXPIRED")
    assert not watched.app.jobs(JobFilter(state=State.FAILED, kind="remove_old_files")).jobs
