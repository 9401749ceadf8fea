"""The webhook of an account: `campaign_ready`, with the state of the campaign, signed with a secret of that account."""

from dataclasses import dataclass

from mulligan import App, MulliganError

NAME = "campaign_ready"
EVENTS = ["batch.settled"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """`last` is what became of the newest message; `problem` says why none is sent any more."""

    id: str
    url: str
    last: str | None = None
    problem: str | None = None


class BadWebhook(ValueError):
    """The message says what to change."""


class Webhooks:
    def __init__(self, app: App) -> None:
        self._app = app

    def find(self, account: str) -> Webhook | None:
        stored = [each for each in self._app.subscriptions(owner=account) if each.name == NAME]
        if not stored:
            return None
        found = stored[0]
        sent = self._app.deliveries(subscription=found.id, owner=account, limit=1)
        return Webhook(found.id, found.to or "", str(sent[0].state) if sent else None, found.disabled_because)

    def add(self, account: str, url: str, *, actor: str) -> str:
        """The secret that signs, which is not shown again. Raises BadWebhook."""
        try:
            created = self._app.subscribe(
                NAME, types=EVENTS, channel="webhook", to=url, owner=account, for_owner=True, actor=actor
            )
        except MulliganError as error:
            raise BadWebhook(str(error)) from None
        return created.secret or ""

    def remove(self, account: str, *, actor: str) -> None:
        found = self.find(account)
        if found is not None:
            self._app.unsubscribe(found.id, owner=account, actor=actor)

    def test(self, account: str, *, actor: str) -> bool:
        """Send a sample. False if there is no webhook."""
        found = self.find(account)
        if found is not None:
            self._app.test_subscription(found.id, owner=account, actor=actor)
        return found is not None
