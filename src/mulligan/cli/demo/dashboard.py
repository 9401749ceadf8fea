"""The demo in a browser: the dashboard of an app whose gateway a person breaks and heals."""

import logging
import os
import shlex
import sys
import threading
import webbrowser
from collections.abc import Mapping
from urllib.parse import urlencode

from mulligan import App
from mulligan.cli.demo.faults import ManualFaults
from mulligan.cli.demo.guarded import app
from mulligan.cli.demo.page import PATH, demo_pages
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.cli.demo.producer import Producer
from mulligan.cli.demo.session import TICK, begin, place, print_summary, stop_signals
from mulligan.cli.demo.summary import program, sum_up
from mulligan.cli.output import echo
from mulligan.web.serving import serve_beside

GUARDED = "mulligan.cli.demo.guarded:app"
# Held jobs outlive any outage that a person has the patience to watch.
PREVIEW_DEADLINE = "1h"
# More unfinished jobs than there are while the gateway is healthy.
PATIENCE = 20


def run_dashboard(*, database: str | None) -> int:
    """Run until Ctrl-C. Returns 0 if no accepted job was lost."""
    # Warnings are about what clients send.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    url, folder = place(app, database)
    faults, producer = ManualFaults(), Producer(app, preview_deadline=PREVIEW_DEADLINE, patience=PATIENCE)
    with app, stop_signals() as stopped:
        with DemoProcesses(
            app, url, log=folder / "workers.log", seconds=None, faults=faults, tasks=GUARDED, producer=producer
        ) as processes:
            if begin(processes, stopped):
                _serve(processes, faults, stopped)
        summary = sum_up(processes)
    print_summary(summary, url, folder)
    return 0 if summary.is_clean else 1


def _serve(processes: DemoProcesses, faults: ManualFaults, stopped: threading.Event) -> None:
    with serve_beside(app, pages=[demo_pages(faults)]) as address:
        _invite(app, address)
        while not stopped.wait(TICK):
            processes.step()


def _invite(app: App, address: str) -> None:
    """Print the link, and open it where a person can see it."""
    key = app.create_key(owner=None, name="demo").key
    link = f"{address}/sign-in?{urlencode({'link': app.sign_in_link(key.id), 'next': PATH})}"
    echo(f"Open the dashboard: {link}")
    echo("The link works once, within ten minutes. For another one, type:")
    echo(f"  {program()} --database {shlex.quote(app.settings.database_url)} keys link {key.id} --url {address}")
    echo("Ctrl-C stops the demo with a summary.")
    if sys.stdout.isatty() and has_display(sys.platform, os.environ):
        open_browser(link)


def has_display(platform: str, environment: Mapping[str, str]) -> bool:
    return platform in ("darwin", "win32") or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_browser(link: str) -> None:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    # Exactly this class is a browser of the terminal, which would take it over.
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(link)
