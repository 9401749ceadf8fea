"""The sentence that opens a page, in pieces. The template renders times, which go on, and colours what matters."""

from datetime import datetime
from typing import NamedTuple

from mulligan.web.pages import words


class Toned(NamedTuple):
    """A part of a sentence in the colour of a state."""

    text: str
    tone: str


class Moment(NamedTuple):
    """`how` is `clock` (14:05:34) or `ago` (3 min ago, in 5 min)."""

    at: datetime
    how: str


Piece = str | Toned | Moment
Pieces = tuple[Piece, ...]


class Sentence(NamedTuple):
    """`title` answers the question of the page, `lead` says what follows from it."""

    title: Pieces
    lead: Pieces = ()


def clock(moment: datetime) -> Moment:
    return Moment(moment, "clock")


def ago(moment: datetime) -> Moment:
    return Moment(moment, "ago")


def held(text: str) -> Toned:
    return Toned(text, "held")


def failed(text: str) -> Toned:
    return Toned(text, "failed")


def succeeded(text: str) -> Toned:
    return Toned(text, "succeeded")


def plain(pieces: Pieces, now: datetime) -> str:
    """The sentence as text."""
    return "".join(_text(piece, now) for piece in pieces)


def _text(piece: Piece, now: datetime) -> str:
    match piece:
        case str():
            return piece
        case Toned():
            return piece.text
        case Moment(how="ago"):
            return words.ago(piece.at, now)
        case Moment():
            return words.clock_time(piece.at, now)
