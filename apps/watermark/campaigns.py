"""Campaigns and their recipients, as people describe them."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from apps.pages.database import Database
from apps.watermark.tables import Tables

MOST_RECIPIENTS = 1_000
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a person fills in."""

    name: str
    recipients: Sequence[str]
    visible_wm: bool = True
    invisible_wm: bool = True
    max_downloads: int | None = None
    max_attempts: int | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    id: str
    account: str
    name: str
    video_name: str
    video_size: int
    visible_wm: bool
    invisible_wm: bool
    max_downloads: int | None
    max_attempts: int | None
    expires_at: datetime | None
    batch: str | None
    created_at: datetime
    published_at: datetime | None

    @property
    def variant(self) -> str:
        """The marks of its videos, as the argument of a job."""
        marks = [name for name, is_on in (("visible", self.visible_wm), ("invisible", self.invisible_wm)) if is_on]
        return "+".join(marks)

    def is_over(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    campaign: str
    place: int
    recipient: str
    link: str
    downloads: int
    job: str | None


class Campaigns:
    def __init__(self, database: Database, tables: Tables) -> None:
        self._database, self._tables = database, tables

    def create(
        self, account: str, choice: Choice, *, video_name: str, video_size: int, campaign_id: str | None = None
    ) -> Campaign:
        campaign = Campaign(
            id=campaign_id or new_id(),
            account=account,
            name=choice.name,
            video_name=video_name,
            video_size=video_size,
            **_settings(choice),
            batch=None,
            created_at=datetime.now(UTC),
            published_at=None,
        )
        with self._database.transaction() as connection:
            connection.execute(self._tables.campaigns.insert().values(_columns(campaign)))
            self._add_tokens(connection, campaign.id, choice.recipients)
        return campaign

    def change(self, campaign: Campaign, choice: Choice) -> bool:
        """Replace what a draft says. False if it has been published meanwhile."""
        campaigns, tokens = self._tables.campaigns, self._tables.tokens
        is_draft = (campaigns.c.id == campaign.id) & campaigns.c.batch.is_(None)
        with self._database.transaction() as connection:
            values = {"name": choice.name, **_settings(choice)}
            if connection.execute(update(campaigns).where(is_draft).values(values)).rowcount != 1:
                return False
            connection.execute(tokens.delete().where(tokens.c.campaign == campaign.id))
            self._add_tokens(connection, campaign.id, choice.recipients)
        return True

    def _add_tokens(self, connection: Connection, campaign: str, recipients: Sequence[str]) -> None:
        rows = [
            {
                "id": secrets.token_hex(16),
                "campaign": campaign,
                "place": place,
                "recipient": recipient,
                "link": secrets.token_urlsafe(24),
                "downloads": 0,
            }
            for place, recipient in enumerate(recipients, 1)
        ]
        connection.execute(self._tables.tokens.insert(), rows)

    # Reading

    def find(self, campaign_id: str, account: str) -> Campaign | None:
        """None also if it is another account's."""
        table = self._tables.campaigns
        wanted = (table.c.id == campaign_id) & (table.c.account == account)
        return self._one(select(table).where(wanted))

    def get(self, campaign_id: str) -> Campaign | None:
        return self._one(select(self._tables.campaigns).where(self._tables.campaigns.c.id == campaign_id))

    def by_batch(self, batch: str) -> Campaign | None:
        return self._one(select(self._tables.campaigns).where(self._tables.campaigns.c.batch == batch))

    def _one(self, query: Any) -> Campaign | None:
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else _to_campaign(row)

    def of_account(self, account: str, *, limit: int = 200) -> list[Campaign]:
        """The newest first."""
        table = self._tables.campaigns
        query = select(table).where(table.c.account == account).order_by(table.c.created_at.desc()).limit(limit)
        with self._database.read() as connection:
            return [_to_campaign(row) for row in connection.execute(query)]

    def tokens(self, campaign_id: str, *, offset: int = 0, limit: int = MOST_RECIPIENTS) -> list[Token]:
        table = self._tables.tokens
        query = select(table).where(table.c.campaign == campaign_id).order_by(table.c.place)
        with self._database.read() as connection:
            return [_to_token(row) for row in connection.execute(query.offset(offset).limit(limit))]

    def count_tokens(self, campaign_ids: Sequence[str]) -> dict[str, int]:
        table = self._tables.tokens
        query = select(table.c.campaign, func.count()).where(table.c.campaign.in_(campaign_ids))
        with self._database.read() as connection:
            found = connection.execute(query.group_by(table.c.campaign)).all()
        return {row[0]: row[1] for row in found}

    def token(self, token_id: str) -> Token | None:
        return self._token(self._tables.tokens.c.id == token_id)

    def token_of_job(self, job: str) -> Token | None:
        return self._token(self._tables.tokens.c.job == job)

    def token_of_link(self, link: str) -> Token | None:
        return self._token(self._tables.tokens.c.link == link)

    def _token(self, wanted: Any) -> Token | None:
        with self._database.read() as connection:
            row = connection.execute(select(self._tables.tokens).where(wanted)).first()
        return None if row is None else _to_token(row)

    def marked_tokens(self, account: str, campaign: str | None, *, limit: int = 20_000) -> list[Token]:
        """Whose marks may be in a video: those of one campaign, or of all that were published."""
        campaigns, tokens = self._tables.campaigns, self._tables.tokens
        query = select(tokens).join(campaigns).where(campaigns.c.account == account, campaigns.c.batch.is_not(None))
        if campaign is not None:
            query = query.where(campaigns.c.id == campaign)
        with self._database.read() as connection:
            return [_to_token(row) for row in connection.execute(query.limit(limit))]

    # Downloads

    def count_download(self, token: Token, most: int | None) -> bool:
        """Count one more download. False if the link is used up: two at once cannot both be the last one."""
        table = self._tables.tokens
        is_left = table.c.id == token.id
        if most is not None:
            is_left &= table.c.downloads < most
        with self._database.transaction() as connection:
            changed = connection.execute(update(table).where(is_left).values(downloads=table.c.downloads + 1))
        return bool(changed.rowcount)


def new_id() -> str:
    return secrets.token_hex(16)


def _settings(choice: Choice) -> dict[str, Any]:
    names = ("visible_wm", "invisible_wm", "max_downloads", "max_attempts", "expires_at")
    return {name: getattr(choice, name) for name in names}


def _columns(campaign: Campaign) -> dict[str, Any]:
    return {name: getattr(campaign, name) for name in Campaign.__dataclass_fields__}


def _to_campaign(row: Row[Any]) -> Campaign:
    return Campaign(**row._mapping)


def _to_token(row: Row[Any]) -> Token:
    return Token(**row._mapping)
