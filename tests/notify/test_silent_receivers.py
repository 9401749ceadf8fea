"""Receivers that accept and never answer: what they keep waiting."""

import asyncio
from collections.abc import Iterator

import pytest
from notify_world import NotifyWorld, notify_world

from mulligan import JobFilter
from mulligan.notify.sending import service_of
from mulligan.records.subscription import DELIVER_KIND, MOST_OF_SENDER, Channel, sender_of
from mulligan.values.check import LONGEST_NAME


def test_a_long_host_does_not_hide_whose_delivery_it_is() -> None:
    service = service_of(Channel.WEBHOOK, f"https://{'long.' * 50}example", "acme")
    assert len(service) <= LONGEST_NAME
    assert sender_of(service) == "acme"


@pytest.fixture
def world(url: str) -> Iterator[NotifyWorld]:
    with notify_world(url) as world:
        yield world


def subscribe(world: NotifyWorld, path: str, owner: str | None) -> str:
    created = world.app.subscribe(
        f"hook of {owner}", types=["job.failed"], channel="webhook", to=world.receiver.url(path), owner=owner
    )
    return created.subscription.id


@pytest.mark.parametrize("owner", ["acme", None], ids=["owner", "administrators"])
def test_they_leave_slots_to_jobs_and_to_other_deliveries(world: NotifyWorld, owner: str | None) -> None:
    subscribe(world, "/silent", owner)
    answering = subscribe(world, "/200", "other")
    world.fail(*["broken"] * 8, owner=owner or "")
    world.fail("broken", owner="other")
    world.app.run_duty("notify")

    async def work() -> None:
        async with world.app.worker(concurrency=MOST_OF_SENDER + 1):
            await world.app.wait_async(world.convert.enqueue(""), timeout="60s")
            (delivery,) = world.deliveries(subscription=answering)
            assert delivery.job is not None
            await world.app.wait_async(world.app.job(delivery.job), timeout="60s")
            paths = [received.path for received in world.receiver.received]
            waiting = world.app.jobs(JobFilter(kind=DELIVER_KIND, state="waiting")).jobs
            world.receiver.over.set()
        assert paths.count("/silent") <= MOST_OF_SENDER
        assert "/200" in paths
        assert set(world.app.blocked_by(waiting).values()) == {f"limit/sender/{owner or 'notify:127.0.0.1'}"}

    asyncio.run(work())
