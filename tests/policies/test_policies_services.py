"""Services in the policies file: what is in force, and how each mistake is named."""

from textwrap import dedent

import pytest

from mulligan.errors import BadPolicies
from mulligan.policies.reading import Policies, read
from mulligan.service.config import Service, ServiceBook

CODE = ServiceBook(
    [Service("gateway", probes=3, open_at=0.6), Service("site:*", cooldown="1m")], default=Service("*", budget=0.2)
)


def policies(text: str) -> Policies:
    return read(dedent(text).encode(), "policies.yaml")


def in_force(name: str, text: str, code: ServiceBook = CODE) -> Service:
    return policies(text).override_services(code).of(name)


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadPolicies) as raised:
        policies(text)
    return list(raised.value.mistakes)


def test_the_file_goes_before_the_code_and_leaves_what_it_does_not_say() -> None:
    found = in_force("gateway", "services: {gateway: {open_at: 0.4, rate: 10/s}}")
    assert found == Service("gateway", probes=3, open_at=0.4, rate=10)


def test_without_services_in_the_file_it_is_the_code_that_counts() -> None:
    assert policies("kinds: {}").override_services(CODE) is CODE


def test_a_name_the_code_does_not_have_is_that_of_its_pattern_with_what_the_file_says() -> None:
    found = in_force("site:a", 'services: {"site:a": {probes: 2}}')
    assert found == Service("site:a", cooldown="1m", probes=2)


def test_what_the_file_says_of_a_pattern_counts_for_a_name_beneath_it() -> None:
    text = """
        services:
          "site:a": {probes: 2}
          "site:*": {mode: fail_fast}
        """
    assert in_force("site:a", text) == Service("site:a", cooldown="1m", mode="fail_fast", probes=2)
    assert in_force("site:b", text) == Service("site:*", cooldown="1m", mode="fail_fast")


def test_the_file_can_speak_of_every_service_at_once() -> None:
    assert in_force("mail", 'services: {"*": {cooldown: 5s}}') == Service("*", budget=0.2, cooldown="5s")


def test_what_does_not_fit_the_code_follows_the_file() -> None:
    assert in_force("gateway", "services: {gateway: {window: 4}}").min_calls == 4
    assert in_force("gateway", "services: {gateway: {min_calls: 50}}").window == 50


def test_null_takes_a_limit_away() -> None:
    found = in_force("mail", "services: {mail: {budget: null, rate: null}}")
    assert (found.budget, found.rate) == (None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{gateway: {open_at: 2}}", "services.gateway.open_at is 2, but it must be a number from 0 to 1"),
        ("{gateway: {cooldown: soon}}", "services.gateway.cooldown is 'soon', but it must be a duration"),
        ("{gateway: {speed: 1}}", "services.gateway.speed is unknown; known are: mode, window, min_calls"),
        ("{'a*b': {probes: 1}}", "services.a*b is 'a*b', but it must be 1 to 200 printable characters"),
        ("{gateway: {window: 5, min_calls: 6}}", "services.gateway.min_calls is 6, but it must be an integer from"),
        ("{gateway: 3}", "services.gateway is 3, but it must be a mapping"),
        ("[gateway]", "services is ['gateway'], but it must be a mapping"),
    ],
)
def test_a_mistake_has_its_path_and_what_is_possible(text: str, said: str) -> None:
    assert [mistake[: len(said)] for mistake in mistakes(f"services: {text}")] == [said]


def test_every_mistake_is_found_in_one_go() -> None:
    assert len(mistakes("services: {gateway: {probes: 0, mode: drop}, mail: {rate: fast}}")) == 3
