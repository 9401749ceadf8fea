"""A policies file as values: what it may say, and how each mistake is named."""

import json
from datetime import timedelta
from itertools import product
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan import Added, Decorrelated, Exponential, Failure, Fixed, Full, Linear, RetryPolicy, Steps
from mulligan.errors import BadPolicies
from mulligan.failure.classify import classify
from mulligan.failure.policy import schedule
from mulligan.policies.in_force import InForce
from mulligan.policies.reading import Policies, read

CODE = InForce(RetryPolicy(3, Exponential("5s", factor=5, jitter=None), limits={"NOT_PDF": 0}), timedelta(minutes=15))
EVERYTHING = """
default:
  max_snoozes: 50
kinds:
  convert:
    max_attempts: 5
    backoff: {type: exponential, base: 5s, factor: 3, cap: 1h, jitter: 0.2}
    limits: {IO_ERROR: 1}
    deadline: 2h
    windows:
      - {start: 22:00, end: 06:00, days: mon-fri, timezone: Europe/Berlin}
      - {start: 23:00, end: 23:30, allow: false}
    timeout: 30s
    max_crashes: 2
    longest_hint: 1h
    rules:
      - {code: GW_4XX, class: final, status: 400-499}
      - {code: BUSY, class: retryable, exception: [shop.Busy, OSError], message: please wait, name: busy}
    owners:
      acme: {max_attempts: 10}
owners:
  acme: {max_attempts: 7, timeout: 1h}
"""


def policies(text: str) -> Policies:
    return read(dedent(text).encode(), "policies.yaml")


def in_force(text: str, kind: str = "convert", owner: str = "", code: InForce = CODE) -> InForce:
    return policies(text).override(code, kind=kind, owner=owner)


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadPolicies) as raised:
        policies(text)
    return list(raised.value.mistakes)


def test_a_kind_gets_all_that_the_file_says_about_it() -> None:
    found = in_force(EVERYTHING)
    assert found.policy.max_attempts == 5
    assert found.policy.backoff == Exponential("5s", factor=3, cap="1h", jitter=0.2)
    assert dict(found.policy.limits) == {"NOT_PDF": 0, "IO_ERROR": 1}, "limits of other codes stay"
    assert found.policy.deadline == timedelta(hours=2)
    assert [window.describe() for window in found.policy.windows] == [
        "only mon,tue,wed,thu,fri 22:00–06:00 Europe/Berlin",  # noqa: RUF001
        "never every day 23:00–23:30 UTC",  # noqa: RUF001
    ]
    assert (found.policy.max_crashes, found.policy.max_snoozes) == (2, 50)
    assert found.policy.longest_hint == timedelta(hours=1)
    assert found.timeout == timedelta(seconds=30)
    assert [(rule.name, rule.code) for rule in found.rules] == [("kinds.convert.rules[0]", "GW_4XX"), ("busy", "BUSY")]
    assert (found.sources["max_attempts"], found.sources["max_snoozes"]) == ("kinds.convert", "default")


def test_rules_of_the_file_match_by_what_they_say() -> None:
    final, busy = in_force(EVERYTHING).rules
    assert final(Failure(type="E", status=404)) and not final(Failure(type="E", status=500))
    assert busy(Failure(type="shop.Busy", types=("shop.Busy",), message="Please wait a moment"))
    assert not busy(Failure(type="KeyError", types=("KeyError",), message="please wait"))


def test_a_rule_of_the_file_may_give_the_line_for_people() -> None:
    said = "{code: BUSY, class: retryable, status: 503, line: The press is busy. We'll try again.}"
    (rule,) = in_force(f"kinds: {{convert: {{rules: [{said}]}}}}").rules
    verdict = classify(Failure(type="E", status=503), kind="convert", rules=[rule])
    assert (verdict.message, verdict.final_message) == ("The press is busy. We'll try again.", "The press is busy.")
    assert 'the message for users is "The press is busy. We\'ll try again."' in rule.describe()


@pytest.mark.parametrize(
    ("kind", "owner", "attempts", "timeout"),
    [
        ("convert", "", 5, timedelta(seconds=30)),
        ("convert", "acme", 10, timedelta(seconds=30)),
        ("convert", "other", 5, timedelta(seconds=30)),
        ("mark", "acme", 7, timedelta(hours=1)),
        ("mark", "", 3, timedelta(minutes=15)),
    ],
)
def test_the_owner_in_the_kind_goes_before_the_kind_and_that_before_the_owner(
    kind: str, owner: str, attempts: int, timeout: timedelta
) -> None:
    found = in_force(EVERYTHING, kind, owner)
    assert (found.policy.max_attempts, found.timeout) == (attempts, timeout)


PLACES = ["default", "owners.acme", "kinds.convert", "kinds.convert.owners.acme"]


@given(st.lists(st.sampled_from(PLACES), unique=True), st.data())
def test_of_all_places_that_speak_the_most_specific_has_the_last_word(places: list[str], data: st.DataObject) -> None:
    said = {place: data.draw(st.integers(1, 1_000), label=place) for place in places}
    lines = {place: f"{{max_attempts: {number}" for place, number in said.items()}
    inner = lines.get("kinds.convert.owners.acme")
    kind = lines.get("kinds.convert", "{max_crashes: 3") + (f", owners: {{acme: {inner}}}}}" if inner else "")
    text = f"kinds: {{convert: {kind}}}}}\n"
    text += f"default: {lines['default']}}}\n" if "default" in lines else ""
    text += f"owners: {{acme: {lines['owners.acme']}}}}}\n" if "owners.acme" in lines else ""
    found = in_force(text, owner="acme")
    expected = [place for place in PLACES if place in said]
    assert found.policy.max_attempts == (said[expected[-1]] if expected else 3)
    assert found.sources.get("max_attempts") == (expected[-1] if expected else None)
    stranger = [place for place in expected if "acme" not in place]
    assert in_force(text).policy.max_attempts == (said[stranger[-1]] if stranger else 3)


def test_rules_of_all_places_are_asked_the_most_specific_first() -> None:
    rules = "rules: [{{code: {}, class: final, exit: 1}}]".format
    text = f"""
    default: {{{rules("D")}}}
    owners: {{acme: {{{rules("O")}}}}}
    kinds: {{convert: {{{rules("K")}, owners: {{acme: {{{rules("KO")}}}}}}}}}
    """
    found = in_force(text, owner="acme")
    assert [rule.code for rule in found.rules] == ["KO", "K", "O", "D"]
    assert found.sources["rules"] == "kinds.convert.owners.acme, kinds.convert, owners.acme, default"


# Backoffs


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("{type: exponential, base: 1s}", Exponential("1s", factor=5, jitter=None)),
        ("exponential", Exponential("5s", factor=5, jitter=None)),
        ("{type: EXPONENTIAL, factor: 2}", Exponential("5s", factor=2, jitter=None)),
        ("fixed", Fixed("5s")),
        ("{type: fixed, delay: 1m}", Fixed("1m")),
        ("{type: linear, base: 90, cap: 10m, jitter: none}", Linear("90s", cap="10m", jitter=None)),
        ("{type: steps, delays: [1m, 5m, 15m]}", Steps(["1m", "5m", "15m"])),
        ("{type: fixed, jitter: full}", Fixed("5s", jitter=Full())),
        ("{type: fixed, jitter: decorrelated}", Fixed("5s", jitter=Decorrelated())),
        ("{type: fixed, jitter: {added: 5s}}", Fixed("5s", jitter=Added("5s"))),
    ],
)
def test_a_backoff_keeps_what_the_file_does_not_say(said: str, expected: object) -> None:
    assert in_force(f"default: {{backoff: {said}}}").policy.backoff == expected


def test_another_type_of_backoff_starts_with_the_previous_first_delay() -> None:
    steps = InForce(RetryPolicy(backoff=Steps(["1m", "5m"])), timedelta(0))
    own = InForce(RetryPolicy(backoff=lambda *_: timedelta(0)), timedelta(0))
    assert in_force("default: {backoff: fixed}", code=steps).policy.backoff == Fixed("1m")
    assert in_force("default: {backoff: fixed}", code=own).policy.backoff == Fixed("15s")


# The other spelling

DOCUMENT = """
retry:
  policies:
    - jobType: SCREENSHOT
      maxRetries: 5
      backoffStrategy: EXPONENTIAL
    - jobType: PDF_GENERATION
      maxRetries: 2
      backoffStrategy: FIXED
"""


def test_the_other_spelling_means_the_same() -> None:
    screenshot, pdf = in_force(DOCUMENT, "screenshot").policy, in_force(DOCUMENT, "pdf_generation").policy
    assert (screenshot.max_attempts, pdf.max_attempts) == (6, 3)
    assert [row.delay and row.delay.total_seconds() for row in schedule(screenshot)] == [5, 25, 125, 625, 3125, None]
    assert [row.delay and row.delay.total_seconds() for row in schedule(pdf)] == [5, 5, None]
    assert in_force(DOCUMENT, "SCREENSHOT").policy.max_attempts == 6
    assert in_force(DOCUMENT, "other").policy == CODE.policy


def test_both_spellings_may_stand_in_one_place() -> None:
    text = "kinds: {convert: {maxRetries: 0, backoffStrategy: linear, owners: {acme: {maxRetries: 4}}}}"
    assert in_force(text).policy.max_attempts == 1
    assert in_force(text, owner="acme").policy.max_attempts == 5
    assert in_force(text).policy.backoff == Linear("5s")


# YAML


def test_yaml_has_no_surprises() -> None:
    text = """
    kinds:
      no: {max_attempts: 2}
      convert:
        windows: [{start: 22:30, end: 23:30}]
        deadline: null
    """
    assert in_force(text, "no").policy.max_attempts == 2
    assert in_force(text).policy.windows[0].opens == timedelta(hours=22, minutes=30)
    assert in_force(text, code=InForce(RetryPolicy(deadline="1h"), timedelta(0))).policy.deadline is None


def test_the_version_is_that_of_the_content() -> None:
    versions = {policies(text).version for text in ("", "default: {}", "default: {} # same", "default: {}")}
    assert len(versions) == 3 and all(version is not None and len(version) == 12 for version in versions)


def test_a_file_that_says_nothing_changes_nothing() -> None:
    for text in ("", "kinds:", "kinds: {convert: }", "default: {rules: [], limits: {}}"):
        assert in_force(text).policy == CODE.policy


# Mistakes

KNOWN = (
    "max_attempts, backoff, limits, deadline, windows, max_crashes, max_snoozes, longest_hint, timeout, rules, "
    "maxRetries, backoffStrategy"
)


# A line each, and nine times as much as the one before.
ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGES = "a0: &a0 {k: x}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kind: {}",
            "kind is unknown; did you mean 'kinds'? known are: default, kinds, owners, queues, services, retry",
        ),
        ("rules: {}", "rules is unknown; known are: default, kinds, owners, queues, services, retry"),
        (
            "default: {maxAttempts: 3}",
            f"default.maxAttempts is unknown; did you mean 'max_attempts'? known are: {KNOWN}",
        ),
        (
            "- a",
            "the file is ['a'], but it must be a mapping; known are: default, kinds, owners, queues, services, retry",
        ),
        (
            "kinds: {convert: {attempts: 3}}",
            f"kinds.convert.attempts is unknown; did you mean 'max_attempts'? known are: {KNOWN}, owners",
        ),
        ("owners: {acme: {owners: {}}}", f"owners.acme.owners is unknown; known are: {KNOWN}"),
        ("kinds: {7: {}}", "kinds.7 is 7, which is not a name; use a string, in quotes if necessary"),
        ("kinds: [convert]", "kinds is ['convert'], but it must be a mapping"),
        ("default: {max_attempts: 0}", "default.max_attempts is 0, but it must be an integer from 1 to 1,000,000"),
        ("default: {max_attempts: }", "default.max_attempts is None, but it must be an integer"),
        ("default: {max_attempts: true}", "default.max_attempts is True, but it must be an integer"),
        ("default: {deadline: soon}", "default.deadline is 'soon', but it must be a duration such as '90s'"),
        ("default: {timeout: 0}", "default.timeout is 0, but it must be a duration such as '90s' or '5m', greater"),
        ("default: {limits: {IO_ERROR: -1}}", "default.limits.IO_ERROR is -1, but it must be an integer from 0"),
        ("default: {limits: {'a b': 1}}", "default.limits.a b is 'a b', but it must be"),
        ("default: {backoff: {factor: 2}}", "default.backoff.type is None, but it must be one of exponential, fixed,"),
        ("default: {backoff: often}", "default.backoff is 'often', but it must be one of exponential, fixed, linear,"),
        (
            "kinds: {convert: {backoff: {type: exponential, factor: x}}}",
            "kinds.convert.backoff.factor is 'x', but it must be a number from 1 to",
        ),
        (
            "default: {backoff: {type: fixed, factor: 2}}",
            "default.backoff.factor is not a key of fixed; it takes: base, delay, jitter",
        ),
        ("default: {backoff: {type: fixed, base: 1s, delay: 2s}}", "default.backoff.delay is the same as base;"),
        ("default: {backoff: {type: steps}}", "default.backoff.delays is missing; it must be a list such as"),
        ("default: {backoff: {type: fixed, jitter: 2}}", "default.backoff.jitter is 2, but it must be none, a ratio"),
        ("default: {windows: [{start: '9', end: 10:00}]}", "default.windows[0].start is '9', but it must be a time"),
        ("default: {windows: [{start: 9:00}]}", "default.windows[0].end is missing; it must be a time such as '09:00'"),
        (
            "default: {windows: [{start: 9:00, end: 10:00, timezone: Mars}]}",
            "default.windows[0].timezone is 'Mars', but it must be the name of a time zone",
        ),
        (
            "default: {windows: [{start: 0:00, end: 24:00, allow: false}]}",
            "default.windows is not possible: the windows never allow a retry",
        ),
        ("default: {windows: 9-17}", "default.windows is '9-17', but it must be a list"),
        (
            "default: {rules: [{code: A, class: bad, exit: 1}]}",
            "default.rules[0].class is 'bad', but it must be one of",
        ),
        ("default: {rules: [{class: final, exit: 1}]}", "default.rules[0].code is missing"),
        *(
            (
                "default: {rules: [{code: A, class: final, exit: 1, line: " + line + "}]}",
                "default.rules[0].line is " + shown + ", but it must be one line of 1 to 500 printable characters",
            )
            for line, shown in (("''", "''"), ("7", "7"), ('"a\\nb"', r"'a\nb'"), ("[a]", "['a']"))
        ),
        ("default: {rules: [{code: A, class: final}]}", "default.rules[0] has no condition; give at least one of"),
        ("default: {rules: [{code: A, class: final, status: 7}]}", "default.rules[0].status is 7, but it must be"),
        ("default: {rules: [{code: A, class: final, message: (}]}", "default.rules[0].message is '(', but it must be"),
        (
            "retry: {policies: [{maxRetries: 1}]}",
            "retry.policies[0].jobType is None, but it must be the name of a kind",
        ),
        ("retry: {policies: [{jobType: A}, {jobType: a}]}", "retry.policies[1].jobType is 'a', which was named before"),
        ("{kinds: {a: {}}, retry: {policies: [{jobType: A}]}}", "kinds.a is named in retry.policies too"),
        ("default: {maxRetries: -1}", "default.maxRetries is -1, but it must be an integer from 0"),
        ("default: {maxRetries: 1, max_attempts: 2}", "default.max_attempts means the same as maxRetries"),
        ("default: {backoffStrategy: RANDOM}", "default.backoffStrategy is 'RANDOM', but it must be one of"),
        ("default: [", "it is not valid YAML: expected the node content"),
        ("default: {max_attempts: 1, max_attempts: 2}", "it is not valid YAML: 'max_attempts' is given twice"),
        ("default: !!python/object/apply:os.getcwd []", "it is not valid YAML: could not determine a"),
        ("? [a]\n: b", "it is not valid YAML"),
        ("[" * 5_000, "it is not valid YAML"),
        ("default: {max_attempts: " + "9" * 5_000 + "}", "it is not valid YAML"),
        (ALIASES, "it has more than 100,000 values with its aliases expanded, which is the limit"),
        (MERGES, "it has more than 100,000 values with its aliases expanded, which is the limit"),
        ("kinds: &a {convert: *a}", "it is not valid YAML: it contains itself (line 1, column 8)"),
        (
            "default: {rules: [{code: A, class: final, status: 500-400}]}",
            "default.rules[0].status is '500-400', but it must be a number from 100 to 599",
        ),
        (
            "default: {rules: [{code: A, class: final, status: 1-" + "9" * 5_000 + "}]}",
            "default.rules[0].status is '1-999",
        ),
        ("#" * 2**21, "it takes more than 1,048,576 bytes, which is the limit"),
    ],
)
def test_a_mistake_is_named_with_its_path_and_what_is_possible(text: str, expected: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(expected)


def test_all_mistakes_are_found_in_one_go() -> None:
    text = "default: {max_attempts: 0, timeout: x}\nkinds: {convert: {rules: [{code: A}], limits: 3}}"
    assert [found.split(" ")[0] for found in mistakes(text)] == [
        "kinds.convert.rules[0].class",
        "kinds.convert.rules[0]",
        "kinds.convert.limits",
        "default.max_attempts",
        "default.timeout",
    ]
    with pytest.raises(BadPolicies, match=r"^policies.yaml: .* \(and 4 more; see: mulligan policies check policies"):
        policies(text)


def test_every_mistake_in_a_list_has_its_number() -> None:
    rules = ", ".join("{code: A, class: final, exit: x}" for _ in range(2))
    text = f"kinds: {{a: {{rules: [{rules}]}}, b: {{rules: [{rules}]}}}}"
    expected = [f"kinds.{kind}.rules[{number}].exit" for kind, number in product("ab", range(2))]
    assert [found.split(" ")[0] for found in mistakes(text)] == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = [*KNOWN.split(", "), "owners"]


@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_whatever_the_file_says_it_is_used_or_refused_and_never_raises_anything_else(said: object) -> None:
    try:
        found = policies(json.dumps({"kinds": {"convert": said}}))
    except BadPolicies as error:
        assert all(mistake.startswith("kinds.convert") or "YAML" in mistake for mistake in error.mistakes)
    else:
        found.override(CODE, kind="convert", owner="acme")


def test_a_section_may_be_written_once_and_used_often() -> None:
    found = read(b"kinds:\n  a: &patient {max_attempts: 9}\n  b: *patient\n  c: {<<: *patient, timeout: 5s}", "shown")
    assert [found.kinds[name].section.max_attempts for name in "abc"] == [9, 9, 9]
