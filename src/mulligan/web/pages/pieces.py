"""Sentences with times in them. The template renders a time, so that it goes on and has the exact one on hover."""

from datetime import datetime
from typing import NamedTuple


class Moment(NamedTuple):
    """`how` is `ago` (3 min ago, in 5 min), `clock` (14:05:34) or `countdown` (1 min 5 s)."""

    at: datetime
    how: str


Piece = str | Moment
Pieces = tuple[Piece, ...]


def ago(moment: datetime) -> Moment:
    return Moment(moment, "ago")


def clock(moment: datetime) -> Moment:
    return Moment(moment, "clock")


def countdown(moment: datetime) -> Moment:
    return Moment(moment, "countdown")
