"""A watermark application with an account, clips made by FFmpeg's own sources, and people who use its pages."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from apps.pages.accounts import Account
from apps.watermark.app import Options, Watermark
from apps.watermark.campaigns import Campaign, Choice, Token
from apps.watermark.publishing import TokenView
from apps.watermark.site import build_site
from site_server import serve
from sqlalchemy import text, update
from starlette.applications import Starlette

PASSWORD = "correct horse battery"
QUIET = ("ffmpeg", "-v", "error", "-nostdin", "-y")
SMALL = "testsrc2=s=160x90:r=10:d=1"


def make_clip(path: Path, source: str = SMALL) -> Path:
    encode = ("-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-f", "mp4")
    subprocess.run([*QUIET, "-f", "lavfi", "-i", source, *encode, path], check=True)
    return path


@dataclass
class World:
    watermark: Watermark
    url: str
    folder: Path
    clip: Path
    _names: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    @property
    def app(self) -> Any:
        return self.watermark.app

    def account(self, name: str = "Ann Lee") -> Account:
        return self.watermark.accounts.create(f"person-{next(self._names)}@example.org", name, PASSWORD)

    def campaign(
        self, account: Account, *recipients: str, video: Path | None = None, name: str = "Spring", **choice: Any
    ) -> Campaign:
        wanted = Choice(name=name, recipients=recipients or ("Kim", "Lee", "Noor"), **choice)
        source = video or self.clip
        campaign = self.watermark.campaigns.create(
            account.id, wanted, video_name="holiday.mp4", video_size=source.stat().st_size
        )
        shutil.copy(source, self.folder / "copy")
        self.watermark.files.keep(self.folder / "copy", self.watermark.files.source(account.id, campaign.id))
        return campaign

    def published(self, account: Account, *recipients: str, **choice: Any) -> Campaign:
        return self.publish(self.campaign(account, *recipients, **choice))

    def publish(self, campaign: Campaign) -> Campaign:
        self.watermark.publishing.publish(campaign, actor="ann")
        return self.read(campaign)

    def read(self, campaign: Campaign) -> Campaign:
        found = self.watermark.campaigns.get(campaign.id)
        assert found is not None
        return found

    def state(self, campaign: Campaign) -> str:
        return str(self.watermark.publishing.state(self.read(campaign)))

    def tokens(self, campaign: Campaign) -> list[Token]:
        return self.watermark.campaigns.tokens(campaign.id)

    def views(self, campaign: Campaign) -> list[TokenView]:
        return self.watermark.publishing.view_tokens(self.read(campaign), self.tokens(campaign))

    def words(self, campaign: Campaign) -> list[str]:
        return [str(view.status) for view in self.views(campaign)]

    def target(self, token: Token) -> Path:
        campaign = self.watermark.campaigns.get(token.campaign)
        assert campaign is not None
        return self.watermark.files.marked(campaign.account, campaign.id, token.id)

    def break_token(self, token: Token) -> None:
        """The disk is full for this one: each of its attempts writes to a device that has no room."""
        for part in self._parts(token):
            part.symlink_to("/dev/full")

    def mend_token(self, token: Token) -> None:
        for part in self._parts(token):
            part.unlink(missing_ok=True)

    def _parts(self, token: Token) -> list[Path]:
        target = self.target(token)
        return [target.with_name(f"{target.name}.{number}.part") for number in range(1, 12)]

    def expire(self, campaign: Campaign) -> None:
        """Its date passes now."""
        campaigns = self.watermark.tables.campaigns
        with self.watermark.database.transaction() as connection:
            earlier = datetime.now(UTC) - timedelta(seconds=1)
            connection.execute(update(campaigns).where(campaigns.c.id == campaign.id).values(expires_at=earlier))
            connection.execute(
                text("UPDATE mulligan_batches SET expires_at = created_at WHERE id = :id"),
                {"id": self.read(campaign).batch},
            )

    def work(self, **options: Any) -> None:
        self.app.run_until_idle(timeout="60s", concurrency=2, **options)


@contextmanager
def watermark_world(url: str, folder: Path, clip: Path, **options: Any) -> Iterator[World]:
    watermark = Watermark(url, Options(folder=folder / "files", **options)).open()
    try:
        yield World(watermark, url, folder, clip)
    finally:
        watermark.close()


# Pages


@dataclass
class Visitor:
    """A person in a browser without scripts."""

    client: httpx.Client
    account: Account | None = None

    def token(self, path: str) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.client.get(path).text)
        assert found is not None, path
        return found[1]

    def post(self, path: str, *, shown: str = "/account", **fields: Any) -> httpx.Response:
        return self.client.post(path, data={"csrf": self.token(shown), **fields})

    def upload(self, path: str, name: str, content: bytes, /, *, shown: str, **fields: Any) -> httpx.Response:
        files = {"video": (name, content, "video/mp4")}
        return self.client.post(path, data={"csrf": self.token(shown), **fields}, files=files)


@dataclass
class Served:
    world: World
    base: str
    clients: list[httpx.Client] = field(default_factory=list)

    def stranger(self, *, follow_redirects: bool = True) -> Visitor:
        client = httpx.Client(
            base_url=self.base, follow_redirects=follow_redirects, headers={"accept": "text/html"}, timeout=30
        )
        self.clients.append(client)
        return Visitor(client)

    def visitor(self, account: Account, *, follow_redirects: bool = True) -> Visitor:
        visitor = self.stranger()
        form = {"email": account.email, "password": PASSWORD}
        answer = visitor.post("/sign-in", shown="/sign-in", **form)
        assert answer.status_code == 200, answer.text
        visitor.client.follow_redirects = follow_redirects
        visitor.account = account
        return visitor


@contextmanager
def served(world: World) -> Iterator[Served]:
    application: Starlette = build_site(world.watermark).asgi()
    with serve(world.app, application) as site:
        found = Served(world, site.base)
        try:
            yield found
        finally:
            for client in found.clients:
                client.close()


def badges(html: str, of: Sequence[Token]) -> list[str]:
    """The words of the badges in the rows of these tokens."""
    found = []
    for token in of:
        row = re.search(rf'data-token-id="{token.id}".*?</tr>', html, re.DOTALL)
        assert row is not None, token
        badge = re.search(r'class="status-badge status-\w+">([^<]+)<', row[0])
        assert badge is not None, row[0]
        found.append(badge[1])
    return found
