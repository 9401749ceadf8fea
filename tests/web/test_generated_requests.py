"""Requests that are made from the OpenAPI document, good and bad ones: no 5xx, and every answer as it is described.

Keys, scopes, rates and Idempotency-Keys are checked as by a server.
"""

import os
from collections import Counter
from typing import Any, NamedTuple

import hypothesis
import pytest
import schemathesis
from access_client import Web, bearer
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

from mulligan import JobFilter
from mulligan.web.api import GROUPS
from mulligan.web.route import collect

ROUTES = collect(GROUPS)
PLAIN = {route.template for route in ROUTES if not route.parameters}
# On each store.
REQUESTS = 10_000 if os.environ.get("MULLIGAN_SOAK") else 1_000
# Good ones of each operation, and as many bad ones.
EXAMPLES = -(-REQUESTS // (2 * len(ROUTES)))
# An operation of which too few can be made gets more, with other seeds.
ROUNDS = 10
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
        app = world.app
        batch = app.batch("some", owner="acme")
        redrive = app.redrive(JobFilter(kind="reject"), owner="acme", actor="ann")
        app.run_duty("project")
        groups = [group.id for group in app.failures().groups]
        # An owner has each name once.
        name = f"some {jobs[0].id}"
        subscription = app.subscribe(
            name, types=["job.failed"], channel="webhook", to="https://example.org/hook", owner="acme"
        ).subscription
        self.known = {
            "group": groups,
            "job_id": [job.id for job in jobs],
            "batch_id": [batch.id],
            "redrive_id": [redrive.id],
            "key_id": [app.create_key(owner="acme", name=f"spare {each}").key.id for each in range(3)],
            "subscription_id": [subscription.id],
            "delivery_id": [app.test_subscription(subscription.id).id],
            "hook_id": [app.create_hook(name, group=groups[0], owner="acme").hook.id],
            "check": ["jobs.depth", "jobs.waiting"],
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


class Keyed(NamedTuple):
    """The API of a world with real keys. Its description takes a while, so there is one for all groups."""

    schema: Any
    keys: dict[str, str]


@pytest.fixture(scope="module")
def keyed(world: World) -> Keyed:
    web = Web(world.app)
    schema = schemathesis.openapi.from_asgi("/openapi.json", web.application, timeout=60)
    return Keyed(schema, {"admin": web.key(), "acme": web.key("acme")})


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("group", dict.fromkeys(route.group for route in ROUTES))
def test_every_answer_is_described_and_none_is_a_fault(world: World, keyed: Keyed, group: str) -> None:
    ids, statuses = Ids(world), Counter[int]()

    def request(case: Any, number: int) -> None:
        # Half of the requests are about something that is there.
        if number % 2:
            ids.choose(case.path_parameters, number)
        # A made-up id such as `export` is the path of another route.
        if case.path != case.formatted_path and case.formatted_path in PLAIN:
            return
        answer = case.call(headers=bearer(keyed.keys["admin" if number % 3 else "acme"]))
        statuses[answer.status_code] += 1
        if answer.status_code < 500 or answer.json()["code"] not in MEANT:
            case.validate_response(answer, checks=CHECKS)

    def make(operation: Any, mode: GenerationMode, examples: int, seed: int) -> None:
        made = given(case=operation.as_strategy(generation_mode=mode), number=st.integers(0, 59))
        hypothesis.seed(seed)(settings(examples)(made(request)))()

    operations = [found.ok() for found in keyed.schema.include(tag=group).get_all_operations()]
    for operation in operations:
        wanted = statuses.total() + 2 * EXAMPLES
        make(operation, GenerationMode.POSITIVE, EXAMPLES, SEED)
        try:
            make(operation, GenerationMode.NEGATIVE, EXAMPLES, SEED)
        except Unsatisfiable:
            # Nothing can be wrong with a request that has no parameters.
            assert not operation.body and not list(operation.iter_parameters())
        for more in range(1, ROUNDS):
            if (missing := wanted - statuses.total()) > 0:
                make(operation, GenerationMode.POSITIVE, missing, SEED + more)
        assert statuses.total() >= wanted, operation.label
    # So all groups together make as many requests as are asked for.
    assert len(operations) == sum(route.group == group for route in ROUTES)
    assert statuses[200] + statuses[201] > 0
