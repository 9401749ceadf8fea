"""Pictures of all mails, to look at: `python tests/notify/pictures.py FOLDER`, for each width and colour scheme.

It needs Chromium. Besides the templates it shows mails as subscriptions send them, from stored events.
"""

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from mail_examples import EXAMPLES, NOON

from mulligan.notify.content import Content, render
from mulligan.notify.mails import write_mail
from mulligan.notify.subscription import Bulletin

WIDTHS = {"desktop": 700, "phone": 390}
SCHEMES = {"light": 1, "dark": 0}
# Chromium writes as much as its window shows; what is longer is cut.
HEIGHT = 1_000


def event(type_: str, number: int = 1, **data: Any) -> dict[str, Any]:
    """An event as a delivery stores it."""
    at = (NOON + timedelta(seconds=number)).isoformat()
    about = {"job": None, "kind": "", "owner": "", "attempt": 0, "actor": None, "code": None, "batch": None}
    return {"type": type_, "position": number, "at": at, **about, "queue": "", "service": "", "data": data}


def failed_event(number: int) -> dict[str, Any]:
    job = f"01930000-0000-7000-8000-{number:012}"
    about = {
        "job": job,
        "kind": "convert",
        "owner": "acme",
        "attempt": 3,
        "code": "GW_5XX",
        "label": f"customer {number}",
    }
    return {**event("job.failed", number, error="502 Bad Gateway", group="g1"), **about}


ALERT = {
    "what": "alert",
    "name": "services.troubled",
    "subject": "gateway",
    "found": "service 'gateway' is open since 2026-11-18 11:40:00 UTC (20m ago)",
    "value": 1_200.0,
    "threshold": 900.0,
    "since": NOON.isoformat(),
    "level": "problem",
    "remedy": "mulligan services show gateway; fix the service: its jobs wait until then and continue by themselves",
}
RESOLVED = {
    **event("group.resolved"),
    "kind": "convert",
    "code": "GW_5XX",
    "group": "g1",
    "number": 312,
    "opened_at": NOON.isoformat(),
    "last_at": NOON.isoformat(),
    "message": "httpx.HTTPStatusError: 502 Bad Gateway: no failure for an hour",
}
SENT = {
    "sent-alert": [event("alert.fired", **ALERT)],
    "sent-alert-over": [event("alert.resolved", **ALERT, seconds=2_400.0)],
    "sent-failure": [failed_event(1)],
    "sent-digest": [failed_event(number) for number in range(1, 5)],
    "sent-digest-with-end": [RESOLVED, *map(failed_event, range(1, 3))],
    "sent-resolved": [RESOLVED],
    "sent-events": [event("queue.paused", 1, what="queue", name="mail", reason="maintenance"), RESOLVED],
    "sent-alerts": [event("alert.fired", 1, **ALERT), event("alert.resolved", 2, **ALERT, seconds=60.0)],
    "sent-other": [event("service.paced", 1, service="gateway", how="halved", pace=5)],
}


def mails() -> dict[str, Content]:
    sent = {
        name: write_mail(Bulletin(name="operations", events=tuple(events), is_digest=len(events) > 1))
        for name, events in SENT.items()
    }
    return EXAMPLES | sent


def take_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as pages:
        for name, content in mails().items():
            page = Path(pages) / f"{name}.html"
            page.write_text(render(content, public_url="https://jobs.example.org", name="Ada").html, "utf-8")
            for device, width in WIDTHS.items():
                # A window of Chromium is at least 500 pixels wide; a frame is as narrow as a phone.
                frame = Path(pages) / f"{name}-{device}.html"
                frame.write_text(
                    f'<body style="margin:0"><iframe src="{page.name}" style="border:0" width={width} height={HEIGHT}>'
                )
                for scheme, number in SCHEMES.items():
                    picture = folder / f"{name}-{device}-{scheme}.png"
                    _take(frame, picture, f"{max(width, 500)},{HEIGHT}", number)


def _take(page: Path, picture: Path, size: str, scheme: int) -> None:
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={size}",
         f"--screenshot={picture}", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
