"""What the owner of a campaign is told, by mail and by webhook. The engine sends it; here it is only written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.pages.accounts import Accounts
from apps.watermark.campaigns import Campaign, Campaigns
from mulligan import Bulletin, Content, Entry, Notice, Subscription, Tone

MARK = "watermark"
EventDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mails:
    accounts: Accounts
    campaigns: Campaigns

    def subscriptions(self) -> list[Subscription]:
        failed = Subscription(
            "owners: failed tokens",
            types=["job.failed"],
            kind=MARK,
            channel="email",
            to=self.find_owner,
            label=self.name_recipient,
            template=self.write_failures,
        )
        settled = Subscription(
            "owners: campaigns",
            types=["batch.settled"],
            channel="email",
            to=self.find_owner,
            template=self.write_settled,
            digest=None,
        )
        return [failed, settled]

    def find_owner(self, notice: Notice) -> str | None:
        account = self.accounts.get(notice.event.owner)
        if account is None:
            return None
        # In an address a name is data, but these characters would end it.
        name = "".join(letter for letter in account.name if letter not in '<>"=?@,;:\\()[]').strip()
        return f"{name} <{account.email}>" if name else account.email

    def name_recipient(self, notice: Notice) -> str:
        token = self.campaigns.token_of_job(notice.event.job)
        return "" if token is None else token.recipient

    # A token that is out of retries

    def write_failures(self, bulletin: Bulletin) -> Content:
        failures = [event for event in bulletin.events if event["type"] == "job.failed"]
        if len(failures) == len(bulletin.events) == 1:
            return self._write_failure(failures[0])
        entries = [self._to_entry(event) for event in bulletin.events]
        names = {self._name(event) for event in failures}
        number = f"{len(failures):,} recipient{'' if len(failures) == 1 else 's'}"
        return Content(
            subject=f"Watermarking failed for {number}: {', '.join(sorted(names)) or 'over'}",
            headline=f"The videos for {number} could not be made" if failures else "No more failures",
            lead="Their retries are used up. Open a campaign to retry them.",
            tone=Tone.BAD if failures else Tone.GOOD,
            entries=entries,
            action=("Open your campaigns", "/"),
        )

    def _write_failure(self, event: EventDocument) -> Content:
        recipient, name = event.get("label") or "a recipient", self._name(event)
        return Content(
            subject=f"Watermarking failed for {recipient}: {name}",
            headline=f"The video for {recipient} could not be made",
            lead="Its retries are used up. Open the campaign to retry it.",
            tone=Tone.BAD,
            facts=[("Campaign", name), ("Recipient", recipient), ("Error", _error(event))],
            action=("Open the campaign", self._path(event)),
        )

    def _to_entry(self, event: EventDocument) -> Entry:
        if event["type"] != "job.failed":
            return Entry("No longer failing", str(event.get("message") or ""))
        return Entry(str(event.get("label") or "a recipient"), _error(event), self._name(event), path=self._path(event))

    # A campaign that is done

    def write_settled(self, bulletin: Bulletin) -> Content:
        contents = [self._write_campaign(event) for event in bulletin.events]
        return contents[0] if len(contents) == 1 else _join(contents)

    def _write_campaign(self, event: EventDocument) -> Content:
        data, name = event["data"], self._name(event)
        completed, failed = data["succeeded"], data["failed"] + data["cancelled"]
        headline, lead = {
            "ready": (f"{name} is ready", f"All {completed:,} videos can be downloaded."),
            "partial": (f"{name} is partly ready", f"{completed:,} completed, {failed:,} failed."),
            "failed": (f"{name} failed", f"All {failed:,} videos failed."),
        }[data["state"]]
        facts = [("State", data["state"].upper()), ("Completed", f"{completed:,}"), ("Failed", f"{failed:,}")]
        return Content(
            subject=f"{headline}: {completed:,} completed, {failed:,} failed" if failed else headline,
            headline=headline,
            lead=lead,
            tone=Tone.GOOD if data["state"] == "ready" else Tone.BAD,
            facts=[("Campaign", name), *facts],
            action=("Open the campaign", self._path(event)),
        )

    def _campaign(self, event: EventDocument) -> Campaign | None:
        return self.campaigns.by_batch(event["batch"]) if event.get("batch") else None

    def _name(self, event: EventDocument) -> str:
        campaign = self._campaign(event)
        return "a deleted campaign" if campaign is None else campaign.name

    def _path(self, event: EventDocument) -> str:
        campaign = self._campaign(event)
        return "/" if campaign is None else f"/campaigns/{campaign.id}"

    # The webhook

    def campaign_ready(self, notice: Notice) -> tuple[str, dict[str, Any]]:
        campaign = self.campaigns.by_batch(notice.event.batch or "")
        data = notice.event.data
        return "campaign_ready", {
            "campaign_id": None if campaign is None else campaign.id,
            "name": data["name"],
            "state": data["state"].upper(),
            "completed": data["succeeded"],
            "failed": data["failed"] + data["cancelled"],
        }

    def webhook(self, url: str, secret: str | None) -> Subscription:
        """The operator's: it gets the campaigns of all accounts."""
        return Subscription(
            "campaign_ready",
            types=["batch.settled"],
            channel="webhook",
            to=url,
            secret=secret,
        )


def _error(event: EventDocument) -> str:
    """The line for people. The technical one has paths of the server."""
    return str((event.get("data") or {}).get("message") or event.get("code") or "")


def _join(contents: Sequence[Content]) -> Content:
    return Content(
        subject=f"{len(contents):,} campaigns are done",
        headline=f"{len(contents):,} campaigns are done",
        lead="Open your campaigns to see them.",
        entries=[Entry(each.headline, each.lead, path=each.action[1] if each.action else "") for each in contents],
        action=("Open your campaigns", "/"),
    )
