import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mulligan.errors import BadPolicy, FinalError, RateLimitedError, RetryableError, Snooze
from mulligan.failure.classify import classify
from mulligan.failure.error_codes import Catalogue, ErrorClass, ErrorCode
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import (
    Failure,
    Ledger,
    Verdict,
    crashed,
    deadline_passed,
    engine_verdict,
    timed_out,
    worker_lost,
)


class Refused(Exception):
    pass


class RefusedPolitely(Refused):
    pass


def failed(**evidence: Any) -> Failure:
    given: dict[str, Any] = {"type": "ValueError", "types": ("ValueError", "Exception"), **evidence}
    return Failure(**given)


# The condition, what it matches, what it does not.
CONDITIONS: list[tuple[dict[str, Any], Failure, Failure]] = [
    ({"status": 503}, failed(status=503), failed(status=502)),
    ({"status": 503}, failed(status=503), failed()),
    ({"status": range(500, 600)}, failed(status=599), failed(status=499)),
    ({"status": [400, range(404, 407)]}, failed(status=406), failed(status=401)),
    ({"status": {400, 415}}, failed(status=415), failed(status=416)),
    ({"exit": -9}, failed(exit=-9), failed(exit=9)),
    ({"exit": range(1, 126)}, failed(exit=1), failed(exit=0)),
    ({"errno": (28, 122)}, failed(errno=28), failed(errno=2)),
    ({"message": "moov atom"}, failed(message="x\nMOOV atom not found"), failed(message="no such thing")),
    ({"message": re.compile("^b", re.MULTILINE)}, failed(message="a\nB"), failed(message="ab")),
    ({"when": ValueError}, Failure.of(ValueError("x")), Failure.of(TypeError("x"))),
    ({"when": Refused}, Failure.of(RefusedPolitely("x")), Failure.of(Exception("x"))),
    ({"when": (KeyError, Refused)}, Failure.of(Refused("x")), Failure.of(ValueError("x"))),
    ({"when": "socket.gaierror"}, failed(types=("socket.gaierror", "OSError")), failed(types=("OSError",))),
    ({"when": lambda failure: failure.type == "ValueError"}, failed(), failed(type="TypeError")),
    ({"cause": Refused}, Failure.of(ValueError(RefusedPolitely("x"))), Failure.of(ValueError("x"))),
    ({"cause": Refused}, Failure.of(RefusedPolitely("x")), Failure.of(Exception("x"))),
    ({"cause": ("KeyError", "OSError")}, failed(causes=("OSError",)), failed(causes=("socket.gaierror",))),
    ({"sqlstate": "40"}, failed(sqlstate="40P01"), failed(sqlstate="P0400")),
    ({"sqlstate": ("23505", "SQLITE_BUSY")}, failed(sqlstate="SQLITE_BUSY_SNAPSHOT"), failed(sqlstate="23503")),
    ({"sqlstate": "23505"}, failed(sqlstate="23505"), failed()),
    ({"status": 503, "message": "busy"}, failed(status=503, message="busy"), failed(status=503, message="down")),
    ({"status": 503, "message": "busy"}, failed(status=503, message="busy"), failed(status=500, message="busy")),
    ({"exit": 1, "when": ValueError, "errno": 2}, failed(exit=1, errno=2), failed(exit=1)),
]


@pytest.mark.parametrize(("conditions", "matching", "other"), CONDITIONS)
def test_a_rule_holds_when_all_its_conditions_do(conditions: Any, matching: Any, other: Any) -> None:
    rule = Rule("BROKEN", "final", **conditions)
    assert classify(matching, kind="convert", rules=[rule]).code == "BROKEN"
    assert classify(other, kind="convert", rules=[rule]).code == "UNKNOWN"


@pytest.mark.parametrize("when", [Refused, (KeyError, Refused), f"{__name__}.Refused"])
def test_a_type_is_known_by_name_where_the_exception_is_gone(when: Any) -> None:
    remembered = replace(Failure.of(RefusedPolitely("x")), exception=None)
    assert Rule("BROKEN", "final", when=when).matches(remembered)
    assert not Rule("BROKEN", "final", when=when).matches(replace(Failure.of(ValueError("x")), exception=None))


def refused_by_us(failure: Failure) -> bool:
    return False


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"status": [404, range(500, 600)]}, "status 404, 500 to 599"),
        ({"errno": (28, 100_000 - 1), "exit": -9}, "exit -9; errno ENOSPC, 99999"),
        ({"when": (OSError, "a.B"), "message": "x|y", "kind": "k"}, "OSError, a.B; message /x|y/; kind k"),
        ({"when": refused_by_us, "cause": ConnectionError}, "refused_by_us; is or wraps ConnectionError"),
        ({"status": 403, "retry_after": "90s"}, "status 403; the hint is 1m 30s"),
        ({"sqlstate": ("40", "SQLITE_BUSY")}, "SQLSTATE 40…, SQLITE_BUSY"),
    ],
)
def test_a_rule_says_its_conditions(conditions: Any, said: Any) -> None:
    assert Rule("BROKEN", "final", **conditions).describe() == said


def test_a_rule_of_another_kind_is_not_asked() -> None:
    rule = Rule("BROKEN", "final", when=ValueError, kind="detect")
    failure = Failure.of(ValueError("x"))
    assert classify(failure, kind="detect", rules=[rule]).code == "BROKEN"
    assert classify(failure, kind="convert", rules=[rule]).code == "UNKNOWN"


def test_the_first_rule_that_matches_decides_and_is_named() -> None:
    rules = [
        Rule("A", "final", status=404, name="mine.gone"),
        Rule("B", "retryable", status=range(400, 500)),
        Rule("C", "final", status=range(400, 500)),
    ]
    gone = classify(failed(status=404), kind="convert", rules=rules)
    other = classify(failed(status=418), kind="convert", rules=rules)
    assert (gone.code, gone.error_class, gone.rule) == ("A", ErrorClass.FINAL, "mine.gone")
    assert (other.code, other.error_class, other.rule) == ("B", ErrorClass.RETRYABLE, "B")


@pytest.mark.parametrize(
    ("arguments", "conditions", "says"),
    [
        (("A", "final"), {}, "at least one of when, cause, status, exit, errno, sqlstate, message"),
        (("A", "final"), {"cause": int}, "an exception type, its qualified name, a tuple of these"),
        (("A", "final"), {"cause": ()}, "cause of rule 'A' is ()"),
        (("A", "final"), {"cause": print}, "an exception type"),
        (("A", "final"), {"sqlstate": 40001}, "a SQLSTATE such as '40001'"),
        (("A", "final"), {"sqlstate": ""}, "its class '40'"),
        (("A", "final"), {"sqlstate": []}, "sqlstate of rule 'A' is []"),
        (("A", "final"), {"sqlstate": "SQLITE_"}, "'SQLITE_BUSY'"),
        (("A", "final"), {"kind": "convert"}, "at least one of"),
        (("A", "fatal"), {"status": 404}, "one of 'final', 'retryable', 'rate_limited'"),
        (("no code", "final"), {"status": 404}, "a letter, then up to 63"),
        (("A", "final"), {"message": "(unclosed"}, "a regular expression that compiles"),
        (("A", "final"), {"message": ""}, "not empty"),
        (("A", "final"), {"message": re.compile(b"bytes")}, "a regular expression"),
        (("A", "final"), {"status": 99}, "from 100 to 599"),
        (("A", "final"), {"status": "404"}, "a range of such numbers"),
        (("A", "final"), {"status": []}, "status of rule 'A' is []"),
        (("A", "final"), {"status": range(600, 700)}, "from 100 to 599"),
        (("A", "final"), {"status": range(400, 400)}, "from 100 to 599"),
        (("A", "final"), {"exit": True}, "exit of rule 'A' is True"),
        (("A", "final"), {"errno": [2, None]}, "errno of rule 'A'"),
        (("A", "final"), {"when": int}, "an exception type"),
        (("A", "final"), {"when": ()}, "an exception type"),
        (("A", "final"), {"when": (ValueError, 7)}, "an exception type"),
        (("A", "final"), {"when": 7}, "a function of the failure"),
        (("A", "final"), {"status": 404, "retry_after": "soon"}, "retry_after of rule 'A' is 'soon'"),
    ],
)
def test_a_bad_rule_is_refused_with_what_is_allowed(arguments: Any, conditions: Any, says: str) -> None:
    with pytest.raises(BadPolicy, match="must be") as caught:
        Rule(*arguments, **conditions)
    assert says in str(caught.value)


def test_an_unclassified_error_is_unknown_and_retried() -> None:
    verdict = classify(Failure.of(ValueError("x")), kind="convert", rules=[], catalogue=Catalogue.default())
    assert (verdict.code, verdict.error_class, verdict.rule) == ("UNKNOWN", ErrorClass.RETRYABLE, "default")
    assert verdict.ledger is Ledger.FAILURES


def test_an_error_made_for_tasks_speaks_before_every_rule() -> None:
    everything = Rule("BROKEN", "final", when=Exception)
    verdict = classify(Failure.of(RetryableError("wait", code="GW_5XX")), kind="convert", rules=[everything])
    assert (verdict.code, verdict.error_class, verdict.rule) == ("GW_5XX", ErrorClass.RETRYABLE, "raised")


@pytest.mark.parametrize(
    ("exception", "code", "message"),
    [
        (FinalError("Your file is empty.\nsecond line", code="NOT_PDF"), "NOT_PDF", "Your file is empty."),
        (FinalError("  \n\n indented "), "REJECTED", "indented"),
        (FinalError("", code="NOT_PDF"), "NOT_PDF", "Only PDF files are supported."),
        (FinalError("x" * 1_000), "REJECTED", "x" * 499 + "…"),
        (FinalError("bell \x07 and \x1b[31mred"), "REJECTED", "bell   and  [31mred"),
        (Snooze("5m", "not yet"), "SNOOZED", "not yet"),
        (RateLimitedError("easy now", retry_after=3), "RATE_LIMITED", "easy now"),
    ],
)
def test_the_text_of_a_task_is_the_message_for_people(exception: Any, code: str, message: str) -> None:
    verdict = classify(Failure.of(exception), kind="convert")
    assert (verdict.code, verdict.message) == (code, message)


def test_technical_text_stays_out_of_the_message_for_people() -> None:
    verdict = classify(Failure.of(ValueError("/etc/passwd exploded")), kind="convert")
    assert "passwd" not in verdict.message + verdict.final_message
    assert "passwd" in verdict.detail


def test_the_last_word_promises_nothing() -> None:
    verdict = classify(failed(status=503), kind="convert", rules=[Rule("GW_5XX", "retryable", status=503)])
    assert "retry" in verdict.message
    assert "retry" not in verdict.final_message
    raised = classify(Failure.of(RetryableError("Busy. We'll retry.")), kind="convert")
    assert (raised.message, raised.final_message) == ("Busy. We'll retry.", "Busy.")


def test_a_code_that_is_none_is_replaced_and_noted() -> None:
    verdict = classify(Failure.of(FinalError("no", code="what is this\x00")), kind="convert")
    assert verdict.code == "REJECTED"
    assert "what is this" in verdict.notes[0]


def test_a_function_is_a_rule_and_may_say_no_more_than_code_and_class() -> None:
    def by_hand(failure: Failure) -> Verdict | None:
        return Verdict(code="MINE", error_class="final") if "boom" in failure.message else None  # type: ignore[arg-type]

    failure = Failure.of(ValueError("boom"))
    verdict = classify(failure, kind="convert", rules=[by_hand])
    assert (verdict.code, verdict.error_class, verdict.rule) == ("MINE", ErrorClass.FINAL, "by_hand")
    assert verdict.error_class is ErrorClass.FINAL
    assert verdict.group == failure.group("convert")
    assert verdict.detail == failure.detail
    assert verdict.message
    assert classify(failed(), kind="convert", rules=[by_hand]).code == "UNKNOWN"


def broken(failure: Failure) -> Verdict | None:
    raise LookupError("no such luck")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (broken, "rule 'broken' was skipped, it raised LookupError: no such luck"),
        (Rule("A", "final", when=lambda failure: failure.nonsense, name="a.nonsense"), "rule 'a.nonsense' was skipped"),
        (lambda _: "final", "a Verdict or None"),
        (lambda _: Verdict(code="?", error_class="final"), "a letter, then"),  # type: ignore[arg-type]
        (lambda _: Verdict(code="A", error_class="fatal"), "'rate_limited'"),  # type: ignore[arg-type]
        (lambda _: Verdict(code="A", error_class="final", retry_after=timedelta(days=-1)), "not a duration"),  # type: ignore[arg-type]
        (lambda _: Verdict(code="A", error_class="final", message=7), "skipped"),  # type: ignore[arg-type]
    ],
)
def test_a_broken_rule_is_skipped_and_noted(rule: Any, says: str) -> None:
    verdict = classify(failed(status=404), kind="convert", rules=[rule, Rule("B", "final", status=404)])
    assert verdict.code == "B"
    assert says in verdict.notes[0]


def test_notes_are_few() -> None:
    assert len(classify(failed(), kind="convert", rules=[broken] * 1_000).notes) == 5


def test_a_hint_belongs_to_any_class() -> None:
    rule = Rule("BUSY", "retryable", status=503, retry_after="10s")
    assert classify(failed(status=503), kind="x", rules=[rule]).retry_after == timedelta(seconds=10)
    hinted = failed(status=503, retry_after=timedelta(seconds=3))
    assert classify(hinted, kind="x", rules=[rule]).retry_after == timedelta(seconds=3)
    assert classify(hinted, kind="x").retry_after == timedelta(seconds=3)


def test_the_app_s_catalogue_finds_the_words() -> None:
    catalogue = Catalogue.default().with_codes([ErrorCode("NO_FUNDS", "You have no funds.", "final", status=402)])
    verdict = classify(failed(status=402), kind="x", rules=[Rule("NO_FUNDS", "final", status=402)], catalogue=catalogue)
    assert verdict.message == "You have no funds."


def test_a_lost_worker_and_a_crash_are_charged_to_their_own_ledgers() -> None:
    lost, crash = worker_lost(kind="convert"), crashed(exit=-6, kind="convert", detail="last words")
    assert (lost.code, lost.ledger, lost.error_class) == ("WORKER_LOST", Ledger.LOSSES, ErrorClass.RETRYABLE)
    assert (crash.code, crash.ledger, crash.error_class) == ("CRASHED", Ledger.CRASHES, ErrorClass.RETRYABLE)
    assert "signal 6 (SIGABRT)" in crash.detail
    assert "last words" in crash.detail
    assert "exit status 3" in crashed(exit=3).detail
    assert "signal 99 (unknown)" in crashed(exit=-99).detail
    assert lost.group != crash.group != crashed(kind="detect").group


def test_the_engine_s_other_verdicts() -> None:
    late = timed_out(timedelta(minutes=15), kind="convert")
    assert (late.code, late.error_class, late.ledger) == ("TIMEOUT", ErrorClass.RETRYABLE, Ledger.FAILURES)
    assert "15m" in late.detail
    assert deadline_passed().error_class is ErrorClass.FINAL
    invalid = engine_verdict("INVALID_INPUT", kind="convert", detail="expected int")
    assert (invalid.error_class, invalid.rule, invalid.detail) == (ErrorClass.FINAL, "engine", "expected int")


def test_a_verdict_is_the_same_for_the_same_failure_and_another_for_another() -> None:
    def group(exception: Exception, kind: str = "convert") -> str:
        return classify(Failure.of(exception), kind=kind).group

    assert group(ValueError("job 17 broke")) == group(ValueError("job 99 broke"))
    assert group(ValueError("job 17 broke")) != group(TypeError("job 17 broke"))
    assert group(ValueError("job 17 broke")) != group(ValueError("job 17 broke"), kind="detect")
