"""Classifies a failure: rules turn it into a verdict.

An error that states its own class goes first: a task that raised `FinalError` knows best. Then come the rules, in the
given order. Unclassified errors get the code `UNKNOWN` and are retried.
"""

from collections.abc import Iterable
from dataclasses import replace

from mulligan.failure import evidence
from mulligan.failure.checks import bad_value
from mulligan.failure.error_codes import (
    CODE_ALLOWED,
    DEFAULT,
    Catalogue,
    ErrorClass,
    check_blame,
    is_code,
    without_promise,
)
from mulligan.failure.redact import first_line, sanitize
from mulligan.failure.rule import AnyRule, Rule, name_of
from mulligan.failure.verdict import Failure, Ledger, Verdict
from mulligan.values.duration import parse

_MOST_NOTES = 5
# Cache bound: messages are not part of the key, so most apps have a few dozen kinds of failures.
MOST_CACHED = 200
_DEFAULT_CODES = {
    ErrorClass.FINAL: "REJECTED",
    ErrorClass.RETRYABLE: "UNKNOWN",
    ErrorClass.RATE_LIMITED: "RATE_LIMITED",
}


def classify(failure: Failure, *, kind: str, rules: Iterable[AnyRule] = (), catalogue: Catalogue = DEFAULT) -> Verdict:
    """The verdict on a failure. Never raises: a rule that raises is skipped and named in the notes."""
    notes: list[str] = []
    verdict = _own_verdict(failure, notes) or _first_match(failure, kind, rules, notes) or _unknown(failure)
    return _complete(verdict, failure, kind=kind, catalogue=catalogue, notes=notes)


def _own_verdict(failure: Failure, notes: list[str]) -> Verdict | None:
    if failure.error_class is None:
        return None
    code = failure.code
    if code is None or not is_code(code):
        notes += [] if code is None else [f"code {first_line(code, 80)!r} is not {CODE_ALLOWED}"]
        code = _DEFAULT_CODES[failure.error_class]
    return Verdict(
        code=code,
        error_class=failure.error_class,
        message=first_line(failure.message),
        rule="raised",
        retry_after=failure.retry_after,
        holds_service=failure.holds_service,
    )


def _first_match(failure: Failure, kind: str, rules: Iterable[AnyRule], notes: list[str]) -> Verdict | None:
    for rule in rules:
        if isinstance(rule, Rule) and rule.kind not in (None, kind):
            continue
        try:
            verdict = rule(failure)
            if verdict is not None:
                return _normalize(verdict, rule)
        except Exception as problem:
            said = first_line(evidence.message_of(problem), 200)
            notes.append(f"rule {name_of(rule)!r} was skipped, it raised {evidence.type_name(type(problem))}: {said}")
    return None


def _normalize(verdict: Verdict, rule: AnyRule) -> Verdict:
    """The verdict of any rule, in a form that can be stored and decided on."""
    if not isinstance(verdict, Verdict):
        raise bad_value("what a rule returns", verdict, "a Verdict or None")
    if not is_code(verdict.code):
        raise bad_value("the code of a verdict", verdict.code, CODE_ALLOWED)
    return replace(
        verdict,
        error_class=ErrorClass.of(verdict.error_class),
        message=_line(verdict.message),
        final_message=_line(verdict.final_message),
        rule=first_line(verdict.rule or name_of(rule), 200),
        group=first_line(verdict.group, 64),
        detail=sanitize(verdict.detail, evidence.DETAIL_LIMIT),
        retry_after=None if verdict.retry_after is None else parse(verdict.retry_after),
        ledger=Ledger(verdict.ledger),
        blames_service=check_blame("blames_service of a verdict", verdict.blames_service),
        holds_service=bool(verdict.holds_service),
        notes=tuple(_line(note) for note in verdict.notes),
    )


def _line(text: str) -> str:
    return first_line(sanitize(text, evidence.MESSAGE_LIMIT))


def _unknown(failure: Failure) -> Verdict:
    return Verdict(
        code="UNKNOWN",
        error_class=ErrorClass.RETRYABLE,
        rule="default",
        retry_after=failure.retry_after,
    )


def _complete(verdict: Verdict, failure: Failure, *, kind: str, catalogue: Catalogue, notes: list[str]) -> Verdict:
    entry = catalogue.get(verdict.code)
    last_word = without_promise(verdict.message) if verdict.message else entry.last_message
    return replace(
        verdict,
        message=verdict.message or entry.message,
        final_message=verdict.final_message or last_word,
        group=verdict.group or failure.group(kind),
        detail=verdict.detail or failure.detail,
        notes=(*verdict.notes, *notes)[:_MOST_NOTES],
        blames_service=entry.blames_service if verdict.blames_service is None else verdict.blames_service,
        failure=failure.compact,
    )


class RuleIndex:
    """The rules for jobs of one kind, in order. It finds those that may match a failure, without asking every rule each
    time."""

    def __init__(self, rules: Iterable[AnyRule], kind: str) -> None:
        # A subclass of Rule may match in its own way.
        self._rules = tuple(rule for rule in rules if type(rule) is not Rule or rule.kind in (None, kind))
        self._found: dict[object, tuple[AnyRule, ...]] = {}

    def candidates(self, failure: Failure) -> tuple[AnyRule, ...]:
        """The rules that may match, in order: those left out cannot match a failure with these values."""
        # Strings and integers only: the class of an exception may have any `__hash__`.
        key = (failure.types, failure.causes, failure.status, failure.exit, failure.errno, failure.sqlstate)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MOST_CACHED:
                self._found = {}
            found = tuple(rule for rule in self._rules if type(rule) is not Rule or rule.may_match(failure))
            self._found[key] = found
        return found
