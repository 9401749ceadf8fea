"""The index leaves out rules that cannot match, and nothing else."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from test_rules import CONDITIONS, failed

from mulligan.app import App
from mulligan.failure.classify import MOST_CACHED, RuleIndex, classify
from mulligan.failure.packs.installed import packs
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure, Verdict

RULES: Sequence[Any] = [Rule(f"CODE_{n}", "retryable", **conditions) for n, (conditions, _, _) in enumerate(CONDITIONS)]
FAILURES = [failure for _, *both in CONDITIONS for failure in both]


@pytest.mark.parametrize("failure", FAILURES, ids=range(len(FAILURES)))
def test_the_candidates_give_the_verdict_of_all_rules(failure: Failure) -> None:
    both: tuple[Sequence[Any], ...] = (RULES, [rule for pack in packs() for rule in pack.rules])
    for rules in (*both, [*reversed(RULES)], [*both[1], *RULES]):
        index = RuleIndex(rules, "send")
        for _ in ("found", "from the cache"):
            candidates = index.candidates(failure)
            assert classify(failure, kind="send", rules=candidates) == classify(failure, kind="send", rules=rules)
            assert [rule for rule in rules if rule in candidates] == list(candidates), "the order is kept"


def test_one_index_serves_every_failure() -> None:
    index = RuleIndex(RULES, "send")
    for failure in (*FAILURES, *reversed(FAILURES)):
        matching = [rule for rule in RULES if rule.matches(failure)]
        assert [rule for rule in index.candidates(failure) if rule.matches(failure)] == matching  # type: ignore[attr-defined]


def test_every_rule_that_matches_is_a_candidate() -> None:
    for rule, failure in product(RULES, FAILURES):
        assert not rule.matches(failure) or rule.may_match(failure)


def test_failures_of_the_same_values_may_differ_in_message_and_exception() -> None:
    index = RuleIndex([Rule("BUSY", "retryable", message="busy"), Rule("ODD", "final", when=is_odd)], "send")
    for message, code in (("calm", "UNKNOWN"), ("busy", "BUSY"), ("odd", "ODD"), ("calm", "UNKNOWN")):
        failure = failed(message=message)
        assert classify(failure, kind="send", rules=index.candidates(failure)).code == code


def is_odd(failure: Failure) -> bool:
    return failure.message == "odd"


def test_classes_of_the_same_name_are_told_apart() -> None:
    first, second = (type("Refused", (Exception,), {"__module__": "app"}) for _ in range(2))
    index = RuleIndex([Rule("FIRST", "final", when=first)], "send")
    for kind, code in ((first, "FIRST"), (second, "UNKNOWN"), (first, "FIRST")):
        failure = Failure.of(kind("x"))
        assert classify(failure, kind="send", rules=index.candidates(failure)).code == code


class Meta(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no comparison")


class Hostile(Exception, metaclass=Meta):
    pass


def test_the_class_of_an_exception_need_not_have_a_hash() -> None:
    failure = Failure.of(Hostile("x"))
    index = RuleIndex([Rule("HOSTILE", "final", when="test_rule_index.Hostile")], "send")
    for _ in range(2):
        assert classify(failure, kind="send", rules=index.candidates(failure)).code == "HOSTILE"


class OwnWay(Rule):
    def matches(self, failure: Failure) -> bool:  # noqa: ARG002
        return True


def test_rules_that_match_in_their_own_way_are_always_asked() -> None:
    own = OwnWay("OWN", "final", status=503)
    index = RuleIndex([Rule("OTHER", "final", status=502), own, lambda _: None], "send")
    assert index.candidates(failed())[0] is own
    assert len(index.candidates(failed())) == 2


def test_a_rule_of_another_kind_is_left_out() -> None:
    rule = Rule("BUSY", "retryable", message="busy", kind="send")
    assert RuleIndex([rule], "send").candidates(failed(message="busy")) == (rule,)
    assert RuleIndex([rule], "fetch").candidates(failed(message="busy")) == ()


def test_the_cache_is_bounded() -> None:
    index = RuleIndex(RULES, "send")
    for number in range(3 * MOST_CACHED):
        index.candidates(failed(errno=number))
    assert len(index._found) <= MOST_CACHED


def test_the_rules_of_a_task_that_is_registered_later_are_asked() -> None:
    app = App("sqlite:///:memory:")
    assert app.judge.verdict(failed(), "late").code == "UNKNOWN"

    @app.task(rules=[lambda _: Verdict(code="KNOWN", error_class="final")])  # type: ignore[arg-type]
    def late() -> None: ...

    assert app.judge.verdict(failed(), "late").code == "KNOWN"
