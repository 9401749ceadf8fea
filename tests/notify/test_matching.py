"""The pure function that decides what is sent now and what later, for generated events and subscriptions."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.notify.matching import (
    BUILT_IN_KINDS,
    MAILS_AT_ONCE,
    Message,
    Notification,
    close_digest,
    keys_of,
    match,
    open_digest,
    pause,
    plan,
)
from mulligan.records.delivery import DeliveryState, DigestPlan, Incident, NotifyState
from mulligan.records.event import Event
from mulligan.records.subscription import DELIVER_KIND, Channel, EventChoice, SubscriptionRecord
from mulligan.service.records import PROBE_KIND

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OWNERS = st.sampled_from(["", "acme", "other"])
TYPES = st.sampled_from(["job.failed", "job.retried", "job.succeeded"])
KINDS = st.sampled_from(["convert", "stamp", PROBE_KIND, DELIVER_KIND])

events = st.builds(
    lambda position, type_, job, kind, owner, group: Event(
        position, type_, f"job-{job}", kind, owner, 1, NOON + position * MINUTE, None, "CODE", {"group": group}
    ),
    st.integers(0, 50),
    TYPES,
    st.integers(0, 9),
    KINDS,
    OWNERS,
    st.sampled_from([None, "g1", "g2"]),
)
subscriptions = st.lists(
    st.builds(
        lambda number, owner, types, kind, of_owner, channel, digest: SubscriptionRecord(
            id=f"s{number}",
            name=f"s{number}",
            owner=owner,
            choice=EventChoice(types=tuple(types), kind=kind, of_owner=of_owner),
            channel=channel,
            to=f"{number % 2}@example.org",
            digest=digest if channel is Channel.EMAIL else None,
            created_at=NOON,
        ),
        st.integers(0, 99),
        st.none() | OWNERS,
        st.sets(TYPES, min_size=1),
        st.none() | KINDS,
        st.none() | OWNERS,
        st.sampled_from(Channel),
        st.none() | st.just(5 * MINUTE),
    ),
    max_size=4,
    unique_by=lambda each: each.id,
)


def encode(message: Message, delivery: str, _event: Event, sequence: int) -> str:
    return f"{message.type}/{delivery}/{sequence}"


@settings(max_examples=300)
@given(st.lists(events, max_size=40), subscriptions)
def test_every_match_is_one_delivery_and_no_other(found: list[Event], chosen: list[SubscriptionRecord]) -> None:
    matches = match(found, chosen, {})
    for each in matches:
        event, subscription = each.event, each.subscription
        assert event.kind not in BUILT_IN_KINDS
        assert event.type in subscription.choice.types
        assert subscription.owner in (None, event.owner)
        assert subscription.choice.kind in (None, event.kind)
        assert subscription.choice.of_owner in (None, event.owner)
    notifications = [Notification(each, each.subscription.to) for each in matches]
    planned = plan(notifications, NotifyState(now=NOON), encode=encode)
    assert len(planned.deliveries) == len(matches)
    # Each event of each subscription is one row, and a repeated plan makes the same rows.
    assert len({each.id for each in planned.deliveries}) == len(matches)
    assert plan(notifications, NotifyState(now=NOON), encode=encode) == planned
    assert {(each.subscription, each.to) for each in planned.digests} == {
        (each.subscription, each.to) for each in planned.deliveries if each.state is DeliveryState.SUPPRESSED
    }
    at_once = Counter(
        each.to for each in planned.deliveries if each.state is DeliveryState.PENDING and each.channel is Channel.EMAIL
    )
    assert all(number <= MAILS_AT_ONCE for number in at_once.values())
    keys = keys_of(notifications)
    assert {each.id for each in planned.incidents} == keys.incidents


@settings(max_examples=100)
@given(st.lists(events, min_size=1, max_size=30), st.integers(1, 29))
def test_pages_of_any_size_tell_the_same(found: list[Event], cut: int) -> None:
    """What the first page stored is what the second page finds."""
    subscription = SubscriptionRecord(
        id="s", name="s", owner=None, choice=EventChoice(types=("job.failed",)), channel=Channel.EMAIL,
        to="ops@example.org", digest=5 * MINUTE, created_at=NOON,
    )  # fmt: skip
    notifications = [Notification(each, each.subscription.to) for each in match(found, [subscription], {})]
    whole = plan(notifications, NotifyState(now=NOON), encode=encode)
    first = plan(notifications[:cut], NotifyState(now=NOON), encode=encode)
    mails = Counter(each.to for each in first.deliveries if each.state is DeliveryState.PENDING)
    incidents: dict[str, Incident] = {each.id: each for each in first.incidents}
    digests: dict[str, DigestPlan] = {each.id: each for each in first.digests}
    state = NotifyState(now=NOON, incidents=incidents, digests=digests, mails={str(to): n for to, n in mails.items()})
    second = plan(notifications[cut:], state, encode=encode)
    states = [each.state for each in (*first.deliveries, *second.deliveries)]
    assert states == [each.state for each in whole.deliveries]
    assert incidents | {each.id: each for each in second.incidents} == {each.id: each for each in whole.incidents}


def test_the_pauses_between_digests_grow_and_begin_anew_after_a_rest() -> None:
    first = 5 * MINUTE
    assert [pause(first, step) for step in range(4)] == [5 * MINUTE, 30 * MINUTE, 180 * MINUTE, 360 * MINUTE]
    opened = open_digest(DigestPlan(subscription="s", to="a"), first, NOON)
    assert opened.due_at == NOON + 5 * MINUTE
    assert open_digest(opened, first, NOON + MINUTE) is opened
    closed = close_digest(opened, first, NOON + 5 * MINUTE, has_more=False)
    assert (closed.due_at, closed.step) == (None, 1)
    soon, late = NOON + 6 * MINUTE, NOON + 120 * MINUTE
    assert open_digest(closed, first, soon).due_at == soon + 30 * MINUTE
    assert open_digest(closed, first, late).due_at == late + 5 * MINUTE
