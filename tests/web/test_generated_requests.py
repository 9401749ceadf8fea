"""Requests that are made from the OpenAPI document, good and bad ones: no 5xx, and every answer as it is described."""

import os
from collections import Counter
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from world import World

from mulligan.web.api import GROUPS
from mulligan.web.route import collect

ROUTES = collect(GROUPS)
PLAIN = {route.template for route in ROUTES if not route.parameters}
# On each store.
REQUESTS = 10_000 if os.environ.get("MULLIGAN_SOAK") else 1_000
# Good and bad ones of each operation.
EXAMPLES = max(1, REQUESTS // (2 * len(ROUTES)))
# Read before the tests clear the environment.
SEED = int(os.environ.get("MULLIGAN_MODEL_SEED", "0"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Answers with 503 that an earlier request asked for.
MEANT = {"INTAKE_PAUSED"}


class Ids:
    """Ids of things that are there: an id that was made up is hardly ever one."""

    def __init__(self, world: World) -> None:
        jobs = [
            world.failed(),
            world.succeeded(),
            world.queued(),
            world.queued(delay="1h"),
            world.failed("guarded", why="no"),
        ]
        batch = world.app.batch("some", owner="acme")
        redrive = world.acme.post("redrives", json={"filter": {"kind": "reject"}}).json()
        world.app.run_duty("project")
        self.known = {
            "group": [group.id for group in world.app.failures().groups],
            "job_id": [job.id for job in jobs],
            "batch_id": [batch.id],
            "redrive_id": [redrive["id"]],
            "name": ["gateway", "nightly", "prune", "site:a/b"],
            "owner": ["acme"],
            "what": ["job", "batch"],
            "part": [jobs[0].id[-8:]],
        }

    def choose(self, parameters: dict[str, Any], number: int) -> None:
        for name, several in self.known.items():
            if name in parameters:
                parameters[name] = several[number % len(several)]


def settings(examples: int) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("group", dict.fromkeys(route.group for route in ROUTES))
def test_every_answer_is_described_and_none_is_a_fault(world: World, group: str) -> None:
    ids, statuses = Ids(world), Counter[int]()
    schema = schemathesis.openapi.from_asgi("/openapi.json", world.asgi)

    def request(case: Any, number: int) -> None:
        # Half of the requests are about something that is there.
        if number % 2:
            ids.choose(case.path_parameters, number)
        # A made-up id such as `export` is the path of another route.
        if case.path != case.formatted_path and case.formatted_path in PLAIN:
            return
        key = "admin" if number % 3 else "acme"
        answer = case.call(headers={"Authorization": f"Bearer {key}"})
        statuses[answer.status_code] += 1
        if answer.status_code < 500 or answer.json()["code"] not in MEANT:
            case.validate_response(answer, checks=CHECKS)

    for found in schema.include(tag=group).get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            made = given(case=operation.as_strategy(generation_mode=mode), number=st.integers(0, 59))
            try:
                hypothesis.seed(SEED)(settings(EXAMPLES)(made(request)))()
            except Unsatisfiable:
                # Nothing can be wrong with a request that has no parameters.
                assert not operation.body and not list(operation.iter_parameters())
    assert statuses[200] + statuses[201] > 0 and sum(statuses.values()) >= EXAMPLES
