"""The parts of notifications: the subscriptions of the code, and the task that sends deliveries."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mulligan.errors import BadSubscription
from mulligan.notify.sending import Deliver, DeliveryJobs, deliver_task
from mulligan.notify.subscription import Subscription, WritePayload, check_payloads
from mulligan.records.token import RandomBytes
from mulligan.settings import Settings
from mulligan.store.store import Store
from mulligan.task.client import Client
from mulligan.task.registry import Registry
from mulligan.values.clock import Clock


@dataclass(frozen=True, slots=True)
class Notifications:
    definitions: Mapping[tuple[str | None, str], Subscription]
    payloads: Mapping[str, WritePayload]
    jobs: DeliveryJobs
    ids: Callable[[], str]
    secrets: RandomBytes


def build_notifications(
    subscriptions: Iterable[Subscription],
    payloads: Mapping[str, WritePayload],
    *,
    store: Callable[[], Store],
    clock: Callable[[], Clock],
    settings: Callable[[], Settings],
    client: Client,
    tasks: Registry,
    ids: Callable[[], str],
    secrets: RandomBytes,
) -> Notifications:
    """Register the task that sends deliveries. Raises BadSubscription."""
    definitions = _by_name(subscriptions)
    deliver = Deliver(
        store,
        clock,
        definitions=definitions,
        smtp=lambda: settings().smtp_url,
        egress=lambda: settings().egress,
        public_url=lambda: settings().public_url,
    )
    task = deliver_task(deliver, client)
    tasks.add_built_in(task)
    return Notifications(definitions, check_payloads(payloads), DeliveryJobs(client, task, tasks), ids, secrets)


def _by_name(subscriptions: Iterable[Subscription]) -> dict[tuple[str | None, str], Subscription]:
    found: dict[tuple[str | None, str], Subscription] = {}
    for each in subscriptions:
        if not isinstance(each, Subscription):
            raise BadSubscription(f"{each!r:.200} is no Subscription(…)")
        if each.key in found:
            raise BadSubscription(f"two subscriptions are named {each.name!r}; give one of them another name")
        found[each.key] = each
    return found
