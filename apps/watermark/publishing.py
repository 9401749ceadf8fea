"""Publish a campaign, and retry what failed. The engine keeps every status; here it is read, in the words of pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, update

from apps.pages.database import Database
from apps.watermark.campaigns import Campaign, Campaigns, Token
from apps.watermark.status import OF_BATCH, CampaignState, TokenStatus, token_status
from apps.watermark.tables import Tables
from mulligan import (
    App,
    Batch,
    BatchExpired,
    BatchNotFound,
    BatchState,
    IllegalMove,
    Job,
    JobFilter,
    JobNotFound,
    State,
)

NOT_FAILED = "Token is not in a failed state."
EXPIRED = "Campaign has expired."
CANCELLED = "An operator cancelled this."
REMOVED = "This was removed, and cannot be retried. Make a new campaign for it."
NONE_LEFT = "There is no failed token any more that can be retried."
# More of these than the engine returns at once would need several queries.
MOST_BATCHES = 1_000


class Refused(Exception):
    """What a person asks for is not possible now. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    campaign: Campaign
    state: CampaignState
    recipients: int
    completed: int = 0
    failed: int = 0

    @property
    def left(self) -> int:
        return self.recipients - self.completed - self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    token: Token
    status: TokenStatus
    progress: float = 0.0
    retry_count: int = 0
    max_retries: int = 0
    error: str = ""
    can_be_retried: bool = True
    next_retry_at: datetime | None = None

    @property
    def percent(self) -> int:
        return int(self.progress * 100)

    @property
    def label(self) -> str:
        """The words of its badge."""
        return f"{self.status} {self.percent} %" if self.status is TokenStatus.PROCESSING else str(self.status)


class Publishing:
    """`mark` is the task that marks the video for one token."""

    def __init__(self, app: App, database: Database, tables: Tables, campaigns: Campaigns, *, mark: Any) -> None:
        self._app, self._database, self._tables, self._campaigns, self._mark = app, database, tables, campaigns, mark

    # What people do

    def publish(self, campaign: Campaign, *, actor: str) -> None:
        """Make a job for each token. Again: start the failed ones again, and leave all others alone."""
        if campaign.batch is None:
            self._publish_first(campaign, actor)
            return
        batch = self._find_batch(campaign)
        if batch is None or batch.state is BatchState.EXPIRED:
            raise Refused(EXPIRED)
        # A draft: the process was killed between the rows and the publishing.
        if batch.state is BatchState.DRAFT:
            batch.publish(actor=actor)
        elif batch.failed or batch.cancelled:
            self._retry_failed(batch, actor)

    def _retry_failed(self, batch: Batch, actor: str) -> None:
        try:
            retried = batch.retry_failed(cancelled=True, actor=actor, reason="published again")
        except BatchNotFound:
            raise Refused(EXPIRED) from None
        if not retried.jobs:
            raise Refused(NONE_LEFT)

    def _publish_first(self, campaign: Campaign, actor: str) -> None:
        now = datetime.now(UTC)
        if campaign.is_over(now):
            raise Refused("Its expiry date has passed. Choose a later one.")
        left = None if campaign.expires_at is None else campaign.expires_at - now
        batch = self._app.batch(campaign.name, owner=campaign.account, expires_in=left)
        if self._store_jobs(campaign, batch, now):
            batch.publish(actor=actor)

    def _store_jobs(self, campaign: Campaign, batch: Batch, now: datetime) -> bool:
        """The campaign, its tokens and their jobs change together. False if another request was first."""
        campaigns, tokens = self._tables.campaigns, self._tables.tokens
        with self._database.transaction() as connection:
            is_draft = (campaigns.c.id == campaign.id) & campaigns.c.batch.is_(None)
            taken = connection.execute(update(campaigns).where(is_draft).values(batch=batch.id, published_at=now))
            if taken.rowcount != 1:
                return False
            found = self._campaigns.tokens(campaign.id)
            jobs = batch.add(*(self._bind(campaign, token) for token in found), connection=connection)
            pairs = [{"token": token.id, "made": job.id} for token, job in zip(found, jobs, strict=True)]
            connection.execute(
                update(tokens).where(tokens.c.id == bindparam("token")).values(job=bindparam("made")), pairs
            )
        return True

    def _bind(self, campaign: Campaign, token: Token) -> Any:
        # The job of a finished video holds its key for ever, so retention leaves it. One that failed or was cancelled
        # is deleted when its retention ends.
        submission = self._mark.options(
            owner=campaign.account,
            dedupe=token.id,
            dedupe_scope="succeeded",
            max_attempts=campaign.max_attempts,
        )
        return submission.bind(token.id, campaign.variant)

    def retry(self, campaign: Campaign, token: Token, *, actor: str) -> None:
        """Start the job of a failed token again. Raises Refused."""
        view = self.view_token(campaign, token)
        if self.state(campaign) is CampaignState.EXPIRED:
            raise Refused(EXPIRED)
        if token.job is None or view.status is not TokenStatus.FAILED:
            raise Refused(NOT_FAILED)
        if not view.can_be_retried:
            raise Refused(REMOVED)
        try:
            self._app.retry(token.job, owner=campaign.account, actor=actor, reason="retried by its owner")
        except BatchExpired:
            raise Refused(EXPIRED) from None
        except IllegalMove:
            raise Refused(NOT_FAILED) from None
        except JobNotFound:
            raise Refused(REMOVED) from None

    # What people see

    def state(self, campaign: Campaign) -> CampaignState:
        return self.view(campaign).state

    def view(self, campaign: Campaign) -> CampaignView:
        recipients = self._campaigns.count_tokens([campaign.id]).get(campaign.id, 0)
        return _to_view(campaign, self._find_batch(campaign), recipients)

    def _find_batch(self, campaign: Campaign) -> Batch | None:
        try:
            return None if campaign.batch is None else self._app.find_batch(campaign.batch, owner=campaign.account)
        except BatchNotFound:
            return None

    def views(self, account: str) -> list[CampaignView]:
        """All campaigns of an account, the newest first, in three queries."""
        campaigns = self._campaigns.of_account(account)
        batches = {batch.id: batch for batch in self._app.batches(owner=account, limit=MOST_BATCHES)}
        recipients = self._campaigns.count_tokens([campaign.id for campaign in campaigns])
        return [_to_view(each, batches.get(each.batch or ""), recipients.get(each.id, 0)) for each in campaigns]

    def view_token(self, campaign: Campaign, token: Token) -> TokenView:
        (view,) = self.view_tokens(campaign, [token])
        return view

    def view_tokens(self, campaign: Campaign, tokens: Sequence[Token]) -> list[TokenView]:
        """At most 1,000 tokens of one campaign."""
        ids = [token.job for token in tokens if token.job is not None]
        found = self._app.jobs(JobFilter(ids=ids), owner=campaign.account, limit=1_000).jobs if ids else []
        jobs = {job.id: job for job in found}
        return [_to_token_view(campaign, token, jobs.get(token.job or "")) for token in tokens]


def _to_view(campaign: Campaign, batch: Batch | None, recipients: int) -> CampaignView:
    if batch is None:
        # A batch is deleted with its last job.
        state = CampaignState.DRAFT if campaign.batch is None else CampaignState.EXPIRED
        return CampaignView(campaign=campaign, state=state, recipients=recipients)
    return CampaignView(
        campaign=campaign,
        state=OF_BATCH[batch.state],
        recipients=recipients,
        completed=batch.succeeded,
        failed=batch.failed + batch.cancelled,
    )


def _to_token_view(campaign: Campaign, token: Token, job: Job[Any] | None) -> TokenView:
    if job is None:
        if token.job is None:
            return TokenView(token=token, status=TokenStatus.PENDING)
        return TokenView(token=token, status=TokenStatus.FAILED, error=REMOVED, can_be_retried=False)
    is_consumed = campaign.max_downloads is not None and token.downloads >= campaign.max_downloads
    status = token_status(job.state, is_expired=campaign.is_over(datetime.now(UTC)), is_consumed=is_consumed)
    is_waiting = job.state is State.WAITING and job.failures > 0
    return TokenView(
        token=token,
        status=status,
        progress=job.progress,
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        error=_error(job) if status is TokenStatus.FAILED else "",
        next_retry_at=job.due_at if is_waiting and job.due_at > datetime.now(UTC) - timedelta(seconds=1) else None,
    )


def _error(job: Job[Any]) -> str:
    return CANCELLED if job.state is State.CANCELLED else job.error_message or ""
