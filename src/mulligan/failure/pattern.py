"""How far a message may be searched for a regular expression: the estimate of the steps that a search takes.

Patterns come from users and messages from foreign code. Where a repeat and the part after it can match the same
characters, the search tries every way to divide them: two such repeats in a row take time cubic in the length, and a
repeat inside a repeat takes exponential time. So the steps for the worst message are estimated from the pattern. A
pattern with too many steps is refused; one with many steps is searched only in the head and the tail of a long message.
"""

import re
from math import inf
from typing import NamedTuple

# This many steps take less than a second. REACHES are the lengths that a pattern may be allowed.
MOST_STEPS = 2.2e9
LONGEST_PATTERN = 1_000
# A repeated group takes more steps than a repeated character.
_GROUP_WEIGHT = 4
REACHES = (16_384, 8_192, 4_096, 2_048, 1_024, 512)

QUICK = (
    "a regular expression that is quick on every string: no repeat inside a repeat such as (a+)+, and at most two such "
    "as '.*' in a row; '.{0,50}' counts as 50 only, '[^,]*,' and '\\d+/' hardly count"
)

_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d*)(,?)(\d*)\})([?+]?)")
_GROUP = re.compile(r"\((?:\?(?P<kind>#[^)]*\)|P=\w+\)|[aiLmsux-]+\)|<?[=!]|>|\(\w+\)|P<\w+>|[aiLmsux-]*:))?")
_ATOM = re.compile(r"\\.|\[\^?(?:\\.|[^\\])(?:\\.|[^\]\\])*\]|[^()|]", re.DOTALL)
_BLANK = re.compile(r"(?:\s|#[^\n]*)++")
_ALPHABET = [*map(chr, range(128)), "é", "ß", "中", "\u00a0", "\u2028", "\U0001f600"]


def reach_of(compiled: re.Pattern[str]) -> int | None:
    """The length in which it can be searched quickly; None if it is slow even in the shortest."""
    return next((reach for reach in REACHES if estimate_steps(compiled, reach) <= MOST_STEPS), None)


def estimate_steps(compiled: re.Pattern[str], length: int) -> float:
    """The steps for the worst message of this length: each start position, times all ways to match from there."""
    return length * _Reader(compiled, length).alternatives().work


class _Cost(NamedTuple):
    """In how many ways a part can match from one position, and the steps to try them all."""

    ways: float = 1
    work: float = 1


PLAIN = _Cost()


class _Reader:
    """Reads a valid pattern from left to right."""

    def __init__(self, compiled: re.Pattern[str], length: int) -> None:
        self._text = compiled.pattern
        self._flags = compiled.flags
        self._length = length
        self._at = 0

    def alternatives(self) -> _Cost:
        begins, costs = [self._text[self._at : self._at + 1]], [self._sequence()]
        while self._next("|"):
            begins.append(self._text[self._at : self._at + 1])
            costs.append(self._sequence())
        begins = [begin.casefold() for begin in begins]
        is_either = len(set(begins)) == len(begins) and all(begin.isalnum() for begin in begins)
        ways = [cost.ways for cost in costs]
        return _Cost(max(ways) if is_either else sum(ways), sum(cost.work for cost in costs))

    def _sequence(self) -> _Cost:
        ways, work, before = 1.0, 1.0, PLAIN
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            part = self._part()
            # The rest is tried again for each way. Of plain characters, mostly only the first is tried.
            work += 0 if part == before == PLAIN else _times(ways, part.work)
            ways, before = _times(ways, part.ways), part
        return _Cost(ways, work)

    def _part(self) -> _Cost:
        if self._skip_blanks():
            return PLAIN
        begin = self._at
        is_group = self._text[begin] == "("
        cost = self._group() if is_group else self._atom()
        atom = None if is_group else self._text[begin : self._at]
        self._skip_blanks()
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None or found[0] == "{}":
            return cost
        self._at = found.end()
        return self._repeat(cost, found, atom)

    def _skip_blanks(self) -> bool:
        """Skip the blanks and comments of a verbose pattern."""
        found = _BLANK.match(self._text, self._at) if self._flags & re.VERBOSE else None
        self._at = found.end() if found else self._at
        return found is not None

    def _next(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self._at)
        self._at += is_there
        return is_there

    def _atom(self) -> _Cost:
        found = _ATOM.match(self._text, self._at)
        self._at = found.end() if found else self._at + 1
        return PLAIN

    def _group(self) -> _Cost:
        found = _GROUP.match(self._text, self._at)
        kind = (found and found["kind"]) or ""
        self._at += len(found[0]) if found else 1
        if kind.endswith(")") and not kind.startswith("("):
            return PLAIN
        cost = self.alternatives()
        self._next(")")
        # The search does not backtrack into these.
        return _Cost(1, cost.work) if kind in ("=", "!", "<=", "<!", ">") else cost

    def _repeat(self, cost: _Cost, found: re.Match[str], atom: str | None) -> _Cost:
        least, most = self._bounds(found)
        each = _times(most, cost.work if atom else _GROUP_WEIGHT * cost.work)
        if found[5] == "+" or (atom is not None and self._is_determined(atom)):
            return _Cost(1, each)
        if cost.ways <= 1:
            return _Cost(most - least + 1, each)
        ways = _power(cost.ways, most)
        return _Cost(ways, _times(ways, cost.work))

    def _bounds(self, found: re.Match[str]) -> tuple[int, int]:
        sign, least, comma, most, _ = found.groups()
        if sign:
            return {"*": (0, self._length), "+": (1, self._length), "?": (0, 1)}[sign]
        low = min(int(least or 0), self._length)
        return low, min(int(most), self._length) if most else self._length if comma else low

    def _is_determined(self, atom: str) -> bool:
        """Whether the next part fixes the end of the repeat: there is none, or it cannot match the same characters."""
        at = self._at
        while self._text.startswith(")", at) and not _QUANTIFIER.match(self._text, at + 1):
            at += 1
        if at == len(self._text):
            return True
        found = _ATOM.match(self._text, at)
        if found is None or found[0] in "^$" or re.match(r"[*?]|\{0?,", self._text[found.end() :]):
            return False
        return not _characters(atom, self._flags) & _characters(found[0], self._flags)


def _characters(atom: str, flags: int) -> set[str]:
    """The characters of the alphabet that it matches; all of them if it is a position or a reference."""
    try:
        compiled = re.compile(atom, flags)
    except re.error:
        return set(_ALPHABET)
    found = {character: match for character in _ALPHABET if (match := compiled.match(character))}
    is_place = any(not match.end() for match in found.values())
    return set(found) if found and not is_place else set(_ALPHABET)


def _times(one: float, other: float) -> float:
    return min(one * other, inf) if one and other else 0.0


def _power(ways: float, times: int) -> float:
    try:
        return ways**times
    except OverflowError:
        return inf
