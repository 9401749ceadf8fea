"""Subscriptions, deliveries and incoming hooks: told once, in the transaction that moves the cursor."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, Bench, at_once
from mulligan.errors import (
    DeliveryNotFound,
    HookExists,
    HookNotFound,
    SubscriptionExists,
    SubscriptionNotFound,
    TooManyHooks,
    TooManySubscriptions,
)
from mulligan.records.delivery import (
    DeliveryState,
    DigestContents,
    DigestPlan,
    Incident,
    NewDelivery,
    NotifyKeys,
    NotifyPlan,
    NotifyState,
    NotifyStep,
    SendResult,
)
from mulligan.records.hook import MOST_HOOKS_PER_OWNER
from mulligan.records.subscription import (
    MOST_PER_OWNER,
    ROTATION,
    Channel,
    EventChoice,
    NewSubscription,
    SubscriptionRecord,
)
from mulligan.store.store import Store

CURSOR = "mulligan.notify"
OPS = "ops@example.org"
PENDING, SUPPRESSED = DeliveryState.PENDING, DeliveryState.SUPPRESSED


class NotificationRules(Bench):
    # Subscriptions

    def test_a_subscription_is_stored_and_its_cursor_begins_at_the_end_of_the_log(self) -> None:
        self.enqueue()
        found = self._subscribe("first", owner="acme", channel=Channel.WEBHOOK, secret="whsec_1", digest=MINUTE)
        assert found == self.store.subscription(found.id, owner="acme")
        assert (found.name, found.created_at, found.digest) == ("first", self.now, MINUTE)
        assert found.secrets(self.now) == ["whsec_1"]
        (cursor,) = self.store.cursors()
        assert (cursor.name, cursor.position) == (CURSOR, self.store.last_position())

    def test_a_second_subscription_does_not_move_the_cursor(self) -> None:
        self._subscribe("first")
        before = self.store.cursors()
        self.enqueue()
        self._subscribe("second")
        assert [each.position for each in self.store.cursors()] == [each.position for each in before]

    def test_an_owner_uses_a_name_once(self) -> None:
        self._subscribe("failures", owner="acme")
        self._subscribe("failures", owner="other")
        self._subscribe("failures")
        for owner in ("acme", None):
            with pytest.raises(SubscriptionExists, match="'failures'"):
                self._subscribe("failures", owner=owner)

    def test_an_owner_has_a_bounded_number_of_subscriptions(self) -> None:
        for number in range(MOST_PER_OWNER):
            self._subscribe(f"s{number}", owner="acme")
        with pytest.raises(TooManySubscriptions, match="'acme' has 20"):
            self._subscribe("one more", owner="acme")
        self._subscribe("of another", owner="other")

    @pytest.mark.parametrize("owner", ["other", "", "ACME"])
    def test_the_subscription_of_another_owner_is_not_found(self, owner: str) -> None:
        found = self._subscribe("mine", owner="acme").id
        changes: list[Callable[[], object]] = [
            lambda: self.store.subscription(found, owner=owner),
            lambda: self.store.rotate_secret(found, "whsec_2", owner=owner),
            lambda: self.store.disable_subscription(found, "no", owner=owner),
            lambda: self.store.enable_subscription(found, owner=owner),
            lambda: self.store.remove_subscription(found, owner=owner),
        ]
        for change in changes:
            with pytest.raises(SubscriptionNotFound):
                change()
        assert self.store.subscriptions(owner=owner) == []

    def test_after_a_rotation_both_secrets_sign_for_a_day(self) -> None:
        found = self._subscribe("hook", channel=Channel.WEBHOOK, secret="whsec_1").id
        rotated = self.store.rotate_secret(found, "whsec_2")
        assert rotated.secrets(self.now) == ["whsec_2", "whsec_1"]
        assert rotated.secrets(self.now + ROTATION) == ["whsec_2"]
        assert self.store.rotate_secret(found, "whsec_3").secrets(self.now) == ["whsec_3", "whsec_2"]

    def test_a_definition_of_the_code_is_replaced_and_keeps_its_secret(self) -> None:
        first = self._declare("code", "job.failed", secret="whsec_1")
        self.store.disable_subscription(first.id, "holiday")
        second = self._declare("code", "job.retried", secret="whsec_2")
        assert (second.id, second.choice.types) == (first.id, ("job.retried",))
        assert second.secrets(self.now) == ["whsec_1"]
        assert second.disabled_because == "holiday"

    def test_definitions_of_the_code_that_come_at_once_are_one(self) -> None:
        at_once([lambda: self._declare("code", "job.failed") for _ in range(4)])
        assert len(self.store.subscriptions()) == 1

    # Telling

    def test_deliveries_are_stored_with_the_cursor_and_their_jobs(self) -> None:
        subscription = self._subscribe("failures")
        self.enqueue()
        told = self._notify([self._new_delivery("d1", subscription)], jobs=["d1"])
        assert told is not None
        assert self.store.cursors()[0].position == self.store_position
        (delivery,) = self.store.deliveries()
        assert (delivery.id, delivery.state, delivery.created_at) == ("d1", PENDING, self.now)
        assert self.store.job(self._job_of("d1")).kind == "mulligan.deliver"

    def test_of_two_notifiers_at_the_same_position_one_tells(self) -> None:
        subscription = self._subscribe("failures")
        self.enqueue()
        before, after = self.store.cursors()[0].position, self.store.last_position()
        stores = [self.store, self.twin()]
        answers = at_once(
            [
                lambda store=store, number=number: store.notify(  # type: ignore[misc]
                    self._notify_step(before, after, [self._new_delivery(f"d{number}", subscription)])
                )
                for number, store in enumerate(stores)
            ]
        )
        assert sorted(answer is None for answer in answers) == [False, True]
        assert len(self.store.deliveries()) == 1

    def test_a_plan_that_fails_leaves_nothing(self) -> None:
        subscription = self._subscribe("failures")
        self.enqueue()
        before, after = self.store.cursors()[0].position, self.store.last_position()

        def fail(_state: NotifyState) -> NotifyPlan:
            raise RuntimeError("no plan")

        with pytest.raises(RuntimeError):
            self.store.notify(NotifyStep(cursor=CURSOR, before=before, position=after, keys=NotifyKeys(), plan=fail))
        assert self.store.cursors()[0].position == before
        assert self._notify([self._new_delivery("d1", subscription)]) is not None

    def test_the_plan_sees_incidents_digests_mails_and_sequences(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [
                self._new_delivery("d1", subscription),
                self._new_delivery("d2", subscription, state=SUPPRESSED, sequence=4),
            ],
            incidents=[self._incident(subscription)],
            digests=[self._digest_plan(subscription, due_at=self.now + MINUTE)],
        )
        seen: list[NotifyState] = []
        keys = NotifyKeys(
            incidents=frozenset({"i1", "i2"}),
            digests=frozenset({(subscription.id, OPS), (subscription.id, "new@example.org")}),
            sequences=frozenset({(subscription.id, "j")}),
        )
        self._notify([], keys=keys, seen=seen)
        (state,) = seen
        assert state.incidents == {"i1": self._incident(subscription)}
        assert state.digests[f"{subscription.id}/{OPS}"].due_at == self.now + MINUTE
        assert state.digests[f"{subscription.id}/new@example.org"].due_at is None
        assert state.mails == {OPS: 1}
        assert state.sequences == {(subscription.id, "j"): 4}

    def test_mails_older_than_an_hour_do_not_count(self) -> None:
        subscription = self._subscribe("failures")
        self._notify([self._new_delivery("d1", subscription)])
        self.advance(HOUR)
        seen: list[NotifyState] = []
        self._notify([], keys=NotifyKeys(digests=frozenset({(subscription.id, OPS)})), seen=seen)
        assert seen[0].mails == {}

    def test_a_job_that_ended_badly_ends_its_delivery(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [self._new_delivery("d1", subscription, job="j1"), self._new_delivery("d2", subscription, job="j2")]
        )
        self._notify([], ended={"j1": "550 no such user"})
        found = {each.id: (each.state, each.reason) for each in self.store.deliveries()}
        assert found == {"d1": (DeliveryState.FAILED, "550 no such user"), "d2": (PENDING, None)}

    # Digests

    def test_a_digest_tells_of_all_that_waits_once(self) -> None:
        subscription = self._subscribe("failures")
        new = [self._new_delivery(f"d{number}", subscription, state=SUPPRESSED) for number in range(3)]
        self._notify(new, digests=[self._digest_plan(subscription, due_at=self.now + MINUTE)])
        assert self.store.digests_due(limit=10) == []
        self.advance(MINUTE)
        (due,) = self.store.digests_due(limit=10)
        assert self._close_digest(due, subscription) == 3
        assert self._close_digest(due, subscription) == 0
        assert [each.id for each in self.store.digest_items("digest")] == ["d0", "d1", "d2"]
        assert self.store.digests_due(limit=10) == []

    def test_a_digest_that_is_closed_by_two_workers_is_one_mail(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [self._new_delivery("d0", subscription, state=SUPPRESSED)],
            digests=[self._digest_plan(subscription, due_at=self.now)],
        )
        (due,) = self.store.digests_due(limit=10)
        stores = [self.store, self.twin()]
        told = at_once([lambda store=store: self._close_digest(due, subscription, store=store) for store in stores])  # type: ignore[misc]
        assert set(told) == {0, 1}

    def test_an_event_that_comes_while_a_digest_is_closed_is_told_by_the_next(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [self._new_delivery("d0", subscription, state=SUPPRESSED)],
            digests=[self._digest_plan(subscription, due_at=self.now)],
        )
        (due,) = self.store.digests_due(limit=10)
        twin = self.twin()

        def tell() -> None:
            keys = NotifyKeys(digests=frozenset({(subscription.id, OPS)}))

            def plan(state: NotifyState) -> NotifyPlan:
                digest = state.digests[due.id]
                opened = [] if digest.due_at else [self._digest_plan(subscription, due_at=state.now)]
                return NotifyPlan([self._new_delivery("d1", subscription, state=SUPPRESSED)], (), opened)

            before = twin.cursors()[0].position
            twin.notify(NotifyStep(cursor=CURSOR, before=before, position=before + 1, keys=keys, plan=plan))

        at_once([tell, lambda: self._close_digest(due, subscription)])
        for again in self.store.digests_due(limit=10):
            self._close_digest(again, subscription, name="later")
        assert all(each.digest for each in self.store.deliveries(state="suppressed"))

    def test_a_recipient_with_enough_mails_gets_its_digest_when_the_hour_is_over(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [
                *(self._new_delivery(f"m{number}", subscription) for number in range(2)),
                self._new_delivery("d0", subscription, state=SUPPRESSED),
            ],
            digests=[self._digest_plan(subscription, due_at=self.now + MINUTE)],
        )
        self.advance(MINUTE)
        (due,) = self.store.digests_due(limit=10)
        assert self._close_digest(due, subscription, most_mails=2) == 0
        self.advance(HOUR - MINUTE)
        (later,) = self.store.digests_due(limit=10)
        assert self._close_digest(later, subscription, most_mails=2) == 1

    def test_an_incident_is_over_when_it_is_quiet(self) -> None:
        subscription = self._subscribe("failures")
        self._notify([], incidents=[self._incident(subscription)])
        self.advance(HOUR)
        assert self._incidents_over() == []
        self.advance(INSTANT)
        (over,) = self._incidents_over()
        assert self.store.end_incident(over, lambda _: NotifyPlan())
        assert not self.store.end_incident(over, lambda _: NotifyPlan())

    def test_an_incident_that_goes_on_does_not_end(self) -> None:
        subscription = self._subscribe("failures")
        self._notify([], incidents=[self._incident(subscription)])
        self.advance(2 * HOUR)
        (over,) = self._incidents_over()
        self._notify([], incidents=[self._incident(subscription, number=2)])
        assert not self.store.end_incident(over, lambda _: NotifyPlan())

    # Sending

    def test_what_is_sent_is_decided_by_the_first_attempt(self) -> None:
        subscription = self._subscribe("failures")
        self._notify([self._new_delivery("d1", subscription)])
        assert self.store.freeze_delivery("d1", "first") == "first"
        assert self.store.freeze_delivery("d1", "second") == "first"
        assert self.store.delivery("d1").body == "first"

    def test_attempts_are_recorded_until_it_is_over(self) -> None:
        subscription = self._subscribe("failures")
        self._notify([self._new_delivery("d1", subscription)])
        failed = SendResult(state=PENDING, reason="503", status=503, response="busy", seconds=0.5)
        assert self.store.record_delivery("d1", failed)
        self.advance(MINUTE)
        assert self.store.record_delivery("d1", SendResult(state=DeliveryState.DELIVERED, status=200))
        assert not self.store.record_delivery("d1", failed)
        found = self.store.delivery("d1")
        assert (found.state, found.attempts, found.status) == (DeliveryState.DELIVERED, 2, 200)
        assert (found.delivered_at, found.reason) == (self.now, None)

    def test_a_delivery_that_is_over_can_be_sent_again(self) -> None:
        subscription = self._subscribe("failures", owner="acme")
        self._notify([self._new_delivery("d1", subscription, body="the body")])
        job = self.new("mulligan.deliver")
        assert self.store.redeliver("d1", lambda _: job).job is None
        self.store.record_delivery("d1", SendResult(state=DeliveryState.DELIVERED))
        with pytest.raises(DeliveryNotFound):
            self.store.redeliver("d1", lambda _: job, owner="other")
        again = self.store.redeliver("d1", lambda _: job, owner="acme")
        assert (again.state, again.job, again.body) == (PENDING, job.id, "the body")
        assert self.store.job(job.id).kind == "mulligan.deliver"

    def test_a_removed_subscription_leaves_nothing_to_send(self) -> None:
        subscription = self._subscribe("failures")
        self._notify(
            [self._new_delivery("d1", subscription), self._new_delivery("d2", subscription, state=SUPPRESSED)],
            digests=[self._digest_plan(subscription, due_at=self.now)],
            incidents=[self._incident(subscription)],
        )
        self.store.remove_subscription(subscription.id)
        assert {each.state for each in self.store.deliveries()} == {DeliveryState.SKIPPED}
        assert self.store.digests_due(limit=10) == []
        self.advance(DAY)
        assert self._incidents_over() == []

    def test_deliveries_of_an_owner_are_not_shown_to_another(self) -> None:
        mine, other = self._subscribe("mine", owner="acme"), self._subscribe("theirs", owner="other")
        self._notify([self._new_delivery("d1", mine), self._new_delivery("d2", other)])
        assert [each.id for each in self.store.deliveries(owner="acme")] == ["d1"]
        with pytest.raises(DeliveryNotFound):
            self.store.delivery("d2", owner="acme")

    def test_old_deliveries_are_deleted_unless_they_wait(self) -> None:
        subscription = self._subscribe("failures")
        states = {"d1": PENDING, "d2": SUPPRESSED, "d3": DeliveryState.SKIPPED, "d4": DeliveryState.FAILED}
        self._notify([self._new_delivery(name, subscription, state=state) for name, state in states.items()])
        self.advance(DAY)
        assert self.store.prune_deliveries(before=self.now - DAY, limit=10) == 0
        assert self.store.prune_deliveries(before=self.now, limit=10) == 2
        assert {each.id for each in self.store.deliveries()} == {"d1", "d2"}

    # Incoming hooks

    def test_a_hook_is_found_by_its_id_and_removed_by_its_owner(self) -> None:
        hook = self.store.create_hook(self._hook_values("h1", owner="acme"))
        assert self.store.hook("h1") == hook
        assert self.store.hook("h2") is None
        assert self.store.hooks(owner="acme") == [hook]
        assert self.store.hooks(owner="other") == []
        with pytest.raises(HookNotFound):
            self.store.remove_hook("h1", owner="other")
        self.store.note_hook_call("h1")
        removed = self.store.remove_hook("h1", owner="acme")
        assert removed.called_at == self.now

    def test_hooks_have_names_of_their_own_and_a_bounded_number(self) -> None:
        self.store.create_hook(self._hook_values("h0", owner="acme"))
        with pytest.raises(HookExists):
            self.store.create_hook(self._hook_values("h0", owner="acme") | {"id": "x"})
        for number in range(1, MOST_HOOKS_PER_OWNER):
            self.store.create_hook(self._hook_values(f"h{number}", owner="acme"))
        with pytest.raises(TooManyHooks):
            self.store.create_hook(self._hook_values("h99", owner="acme"))

    # Words

    def _subscribe(self, name: str, **options: Any) -> SubscriptionRecord:
        return self.store.create_subscription(self._new_subscription(name, **options), cursor=CURSOR)

    def _declare(self, name: str, *types: str, **options: Any) -> SubscriptionRecord:
        new = self._new_subscription(name, choice=EventChoice(types=types), is_in_code=True, **options)
        return self.store.declare_subscription(new, cursor=CURSOR)

    def _new_subscription(self, name: str, **options: Any) -> NewSubscription:
        given = {
            "id": self.ids(),
            "owner": None,
            "choice": EventChoice(types=("job.failed",)),
            "channel": Channel.EMAIL,
            "to": OPS,
            "digest": None,
        }
        return NewSubscription(name=name, **(given | options))

    def _new_delivery(self, name: str, subscription: SubscriptionRecord, **options: Any) -> NewDelivery:
        given = {"channel": Channel.EMAIL, "type": "job.failed", "about": "j", "to": OPS, "state": PENDING}
        return NewDelivery(id=name, subscription=subscription.id, owner=subscription.owner, **(given | options))

    def _incident(self, subscription: SubscriptionRecord, **options: Any) -> Incident:
        began = self.store.subscription(subscription.id).created_at
        given: dict[str, Any] = {"kind": "convert", "owner": "", "code": "X", "group": "g", "title": "no"}
        given |= {"opened_at": began, "last_at": began, "number": 1}
        # Without a failed job in the group, an incident of `job.failed` would be over sooner.
        return Incident(id="i1", subscription=subscription.id, to=OPS, type="job.retried", **(given | options))

    def _digest_plan(self, subscription: SubscriptionRecord, **options: Any) -> DigestPlan:
        return DigestPlan(subscription=subscription.id, to=OPS, **options)

    def _hook_values(self, name: str, *, owner: str | None) -> dict[str, Any]:
        values = {"id": name, "name": name, "owner": owner, "error_group": "g", "batch": None}
        return values | {"secret": "whsec_1", "created_by": "ann"}

    @property
    def store_position(self) -> int:
        return self._position

    def _notify(
        self,
        deliveries: list[NewDelivery],
        *,
        incidents: list[Incident] | None = None,
        digests: list[DigestPlan] | None = None,
        jobs: list[str] | None = None,
        keys: NotifyKeys | None = None,
        ended: dict[str, str] | None = None,
        seen: list[NotifyState] | None = None,
    ) -> NotifyPlan | None:
        new = [self.new("mulligan.deliver", id=self._job_of(name)) for name in jobs or []]
        known = keys or NotifyKeys(digests=frozenset((each.subscription, each.to) for each in digests or []))

        def plan(state: NotifyState) -> NotifyPlan:
            if seen is not None:
                seen.append(state)
            return NotifyPlan(deliveries, incidents or [], digests or [], new)

        before = self.store.cursors()[0].position
        self._position = before + 1
        return self.store.notify(
            NotifyStep(cursor=CURSOR, before=before, position=before + 1, keys=known, plan=plan, ended=ended or {})
        )

    def _job_of(self, name: str) -> str:
        return f"00000000-0000-7000-8000-{name:0>12}"

    def _notify_step(self, before: int, after: int, deliveries: list[NewDelivery]) -> NotifyStep:
        return NotifyStep(
            cursor=CURSOR, before=before, position=after, keys=NotifyKeys(), plan=lambda _: NotifyPlan(deliveries)
        )

    def _close_digest(
        self,
        due: DigestPlan,
        subscription: SubscriptionRecord,
        *,
        most_mails: int = 10,
        store: Store | None = None,
        name: str = "digest",
    ) -> int:
        def make(digest: DigestPlan, told: DigestContents) -> NotifyPlan:
            closed = DigestPlan(subscription=digest.subscription, to=digest.to, step=digest.step + 1, last_at=told.now)
            new = [self._new_delivery(name, subscription, items=told.number)] if told.number else []
            return NotifyPlan(new, (), [closed])

        return (store or self.store).close_digest(due, most_mails=most_mails, make=make)

    def _incidents_over(self) -> list[Incident]:
        return self.store.incidents_over(quiet=HOUR, pause=timedelta(minutes=10), limit=10)
