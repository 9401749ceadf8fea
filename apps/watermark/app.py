"""The engine's app: tasks, policy and rules. Everything about retries that this application says is on this page."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from apps.pages.accounts import Accounts
from apps.pages.database import Database
from apps.pages.settings import SettingRefused
from apps.watermark.campaigns import Campaigns
from apps.watermark.detections import Detections
from apps.watermark.files import Files
from apps.watermark.mails import MARK, Mails
from apps.watermark.marking import Marking
from apps.watermark.publishing import Publishing
from apps.watermark.tables import Tables
from apps.watermark.upkeep import Upkeep
from apps.watermark.webhooks import Webhooks
from mulligan import App, ErrorCode, Failure, Fixed, MulliganError, RetryPolicy, Rule, Snooze, Steps

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"

# 1, 5 and 15 minutes after the first three failures. The fourth is final.
MARKING = RetryPolicy(max_attempts=4, backoff=Steps(["1m", "5m", "15m"]))
# A person is looking at the result, and can send the video again.
DETECTING = RetryPolicy(max_attempts=1)
FORGETTING = RetryPolicy(max_attempts=20, max_snoozes=1_000)
# What a job may take beside FFmpeg.
BESIDE_FFMPEG = timedelta(minutes=10)


def names_missing_input(failure: Failure) -> bool:
    """FFmpeg found no input: it had not yet described one when it gave up"""
    text = failure.message
    return "ffmpeg" in text[:200] and "No such file or directory" in text and "Input #0" not in text


RULES = [
    Rule("SOURCE_MISSING", "final", exit=range(1, 128), when=names_missing_input, name="watermark.source"),
    Rule("PICTURE_TOO_LARGE", "final", message="exceeds specified max pixel count", name="watermark.pixels"),
    # A volume that came up with another owner is put right by a person, soon.
    Rule("IO_ERROR", "retryable", when=PermissionError, name="watermark.permission"),
]
CATALOGUE = [
    ErrorCode("SOURCE_MISSING", "The uploaded video isn’t there any more.", "final", 410),  # noqa: RUF001
    ErrorCode("PICTURE_TOO_LARGE", "The picture of this video is larger than 7,680 by 4,320.", "final", 422),
    ErrorCode("UNKNOWN_VARIANT", "This job asks for a mark that doesn’t exist.", "final", 422),  # noqa: RUF001
    ErrorCode("FONT_MISSING", "The font of the visible mark isn’t there. We’ll retry.", "retryable"),  # noqa: RUF001
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator sets. `timeout` is how long FFmpeg may take for one video."""

    folder: Path = Path("watermark-files")
    font: Path = Path(FONT)
    timeout: str = "10m"
    largest_upload: int = 500 * 2**20
    webhook_url: str | None = None
    webhook_secret: str | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """From WATERMARK_FOLDER, WATERMARK_FONT, WATERMARK_TIMEOUT, WATERMARK_LARGEST_UPLOAD, WATERMARK_WEBHOOK_….
        Raises SettingRefused."""
        given = {name: environment.get(f"WATERMARK_{name.upper()}", "").strip() for name in cls.__dataclass_fields__}
        return cls(**{name: _read(name, value) for name, value in given.items() if value})


def _read(name: str, value: str) -> Any:
    read, allowed = READERS.get(name, (str, ""))
    try:
        return read(value)
    except (ValueError, MulliganError):
        raise SettingRefused(f"WATERMARK_{name.upper()}", value, allowed) from None


def _duration(text: str) -> str:
    Fixed(text)
    return text


def _bytes(text: str) -> int:
    if not 1 <= (size := int(text)) <= LARGEST:
        raise ValueError
    return size


def _address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError
    return text


LARGEST = 2**40
READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "folder": (Path, "a folder"),
    "font": (Path, "a file"),
    "timeout": (_duration, "a duration, such as 10m"),
    "largest_upload": (_bytes, f"an integer from 1 to {LARGEST:,}"),
    "webhook_url": (_address, "a URL that begins with http:// or https://"),
}


class Watermark:
    """The application without its pages."""

    def __init__(self, url: str, options: Options) -> None:
        self.options, self.database, self.files = options, Database(url), Files(options.folder.absolute())
        self.accounts = Accounts(self.database)
        self.tables = Tables(self.database.metadata, self.accounts.table)
        self.campaigns = Campaigns(self.database, self.tables)
        self.detections = Detections(self.database, self.tables)
        self.marking = Marking(self.campaigns, self.detections, self.files, options.font, options.timeout)
        self.app = self._make_app(url)
        self.mark, self.detect, self.forget = self._register()
        self.webhooks = Webhooks(self.app)
        self.publishing = Publishing(self.app, self.database, self.tables, self.campaigns, mark=self.mark)
        self.files.folder.mkdir(parents=True, exist_ok=True)

    def _make_app(self, url: str) -> App:
        mails = Mails(self.accounts, self.campaigns)
        subscriptions = mails.subscriptions()
        if self.options.webhook_url:
            subscriptions.append(mails.webhook(self.options.webhook_url, self.options.webhook_secret))
        return App(
            url,
            rules=RULES,
            catalogue=CATALOGUE,
            subscriptions=subscriptions,
            payloads={"batch.settled": mails.campaign_ready},
            stuck="requeue",
        )

    def _register(self) -> tuple[Any, Any, Any]:
        # FFmpeg is a process of its own already: a job cannot take its worker along.
        task = self.app.task
        timeout = Fixed(self.options.timeout).delay + BESIDE_FFMPEG
        marked = task(MARK, retry=MARKING, timeout=timeout, isolate=False)(self.marking.mark)
        detected = task("detect", retry=DETECTING, timeout=timeout, isolate=False)(self.marking.detect)
        upkeep = Upkeep(self.app, self.files, self.detections)
        self.app.cron("17 * * * *")(task("remove_leftovers")(upkeep.remove_leftovers))
        return marked, detected, task("forget", retry=FORGETTING)(self._forget)

    def _forget(self, account: str) -> int:
        """Cancel and delete the jobs of an account that was deleted, then its files: nothing writes them any more."""
        begun = self.app.forget_owner(account, reason="its account was deleted", request_id=f"forget {account}")
        redrive = self.app.redrive_status(begun.id)
        if redrive.ended_at is None:
            raise Snooze("2s")
        self.files.remove_account(account)
        return redrive.purged

    def delete_account(self, account: str) -> None:
        """The rows go with the account; what workers must do is a job of the same transaction."""
        accounts = self.accounts.table
        with self.database.transaction() as connection:
            connection.execute(accounts.delete().where(accounts.c.id == account))
            self.forget.options(connection=connection, id=f"forget {account}").enqueue(account)

    def open(self) -> Self:
        """Create the tables that are missing."""
        self.app.migrate()
        self.database.create()
        return self

    def close(self) -> None:
        self.app.close()
        self.database.close()
