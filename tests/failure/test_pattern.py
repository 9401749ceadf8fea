"""A pattern of a rule takes no time worth a word, whatever text it is searched for in."""

import re
import time

import pytest

from mulligan import Failure, Rule
from mulligan.errors import BadPolicy
from mulligan.failure.pattern import REACHES, reach_of
from mulligan.failure.rule import Pattern

QUICK = [
    "unknown url type",
    "connection (reset|refused|closed) by peer",
    r"HTTP/1\.[01] 5\d\d",
    "quota.*exceeded",
    "quota.*exceeded.*project",
    r"(\d+) of (\d+) on node (\d+) failed",
    r"\d+ errors? in \d+ files?",
    r"\d{1,3}(\.\d{1,3}){3}",
    r"(?:\d+\.)+\d+",
    r"\bdisk\b.*\bfull\b",
    "a++b",
    "[^,]*,[^;]*;",
    r"(?x) disk \s full  # (x+)+",
    "a{,5}b",
    "{}",
    r"(?P<word>\w+) (?P=word)",
]
SLOW = [
    "(a+)+$",
    "(a*)*b",
    "(a|a)*b",
    "(a|ab)*c",
    r"(\w+\s?)*x",
    "([a-z]+)*1",
    "(.*a){12}",
    "(?=(a+)+b)",
    "(?>(a+)+)b",
    "(?x)(a +) + b",
    "(a{,}){,}b",
    "a.*b.*c.*d",
    r"\w+\B\w+\B\w+x",
    "a?" * 30 + "a" * 30,
]


@pytest.mark.parametrize("pattern", QUICK)
def test_a_pattern_people_write_is_taken(pattern: str) -> None:
    assert Rule("X", "final", message=pattern).message is not None


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(BadPolicy, match=r"message of rule 'X' is .*, but it must be .* that is quick"):
        Rule("X", "final", message=pattern)
    with pytest.raises(BadPolicy, match="quick"):
        Rule("X", "final", message=re.compile(pattern))


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(BadPolicy, match="of at most 1,000 characters"):
        Rule("X", "final", message="x" * 1_001)


# The worst texts for them that are known.
WORST = [
    (r"\w+x", "a"),
    ("a.*b", "a"),
    ("a.*?b", "a"),
    ("a.*a.*c", "a"),
    ("a.*?a.*?c", "a"),
    ("(a|b)*c", "ab"),
    (r"(?:\d+\.)+x", "1."),
    ("a.{0,100}a.{0,50}c", "a"),
    (r"\d+ errors? in \d+ files?", "1"),
]


@pytest.mark.parametrize(("pattern", "text"), WORST)
def test_the_worst_text_takes_a_second_or_so(pattern: str, text: str) -> None:
    rule = Rule("X", "final", message=pattern)
    failure = Failure(type="ValueError", message=text * 100_000)
    began = time.process_time()
    assert not rule.matches(failure)
    # Twenty times what it takes: of this thread's work only, and without the bound it would take days.
    assert time.process_time() - began < 20


def test_a_pattern_sees_a_short_text_as_a_whole_and_of_a_long_one_its_head_and_its_tail() -> None:
    pattern = Rule("X", "final", message="disk.*is.*full").message
    assert isinstance(pattern, Pattern)
    assert pattern.is_in(f"{'x' * 400} the disk sda1 is {'x' * 400} full")
    assert pattern.is_in(f"the disk is full {'x' * 100_000}")
    assert pattern.is_in(f"{'x' * 100_000} the disk is full")
    assert not pattern.is_in(f"{'x' * 50_000} the disk is full {'x' * 50_000}")


def test_a_plain_pattern_sees_all_that_is_kept_of_a_message() -> None:
    assert reach_of(re.compile("disk is full")) == REACHES[0] == 16 * 1024
