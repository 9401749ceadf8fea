"""A service that is down for a day while workers crash, replies are lost and clocks step: no job fails for it."""

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from simulator.parameters import KINDS, GatewayOptions, Parameters
from simulator.run import listening
from simulator.world import World

HOURS = 24
SEEDS = [int(os.environ["MULLIGAN_WORLD_SEED"]) + number for number in range(int(os.environ.get("MULLIGAN_DAYS", "1")))]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_day_of_outage_no_job_has_failed_because_of_it(seed: int) -> None:
    drawn = Parameters.draw(random.Random(seed))
    options = replace(
        GatewayOptions(first_outage=HOURS * 3600),
        has_probe=drawn.gateway.has_probe,
        check_lies=drawn.gateway.check_lies,
    )
    # One worker knows every kind: in a fleet without one, no job would call the service.
    seats = (KINDS, *drawn.seats[1:])
    world = World(seed, parameters=replace(drawn, seats=seats, has_gateway=True, gateway=options))
    with listening(world):
        world.run(HOURS + 1)
        log = world.server.store.log(0, expected=-1)
        world.end()
    world.server.store.close()
    assert world.broken is None, f"MULLIGAN_WORLD_SEED={seed}: {world.broken}"
    charged = Counter(entry.type for entry in log if entry.code == "GW_5XX")
    probed = sum(entry.type == "service.half_opened" for entry in log)
    # With a probe of its own, a service may be tried all day without a job (36708365).
    assert charged["job.parked"] or (options.has_probe and probed), "nothing was called during the outage"
    assert not charged["job.failed"], f"MULLIGAN_WORLD_SEED={seed}"
