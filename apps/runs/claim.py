"""A run as the leaderboard tells of it: what a player claims to have played."""

import re
from datetime import datetime
from math import isfinite
from typing import Annotated

from msgspec import Meta, Raw, Struct, ValidationError, convert, json

RUN_ID = r"\A[A-Za-z0-9_-]{1,64}\Z"
RunId = Annotated[str, Meta(pattern=RUN_ID)]
Category = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9-]{0,99}\Z")]


def is_run_id(text: str) -> bool:
    return re.match(RUN_ID, text) is not None


class Claim(Struct, frozen=True, kw_only=True):
    id: RunId
    category: Category
    player: Annotated[str, Meta(pattern=r"\A[^\x00]{0,200}\Z")]
    environment: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9/_.-]{1,100}\Z")]
    """With its version: `CartPole-v1`."""
    seed: Annotated[int, Meta(ge=0, lt=2**31)]
    score: float
    submitted_at: Annotated[datetime, Meta(tz=True)]

    def __post_init__(self) -> None:
        if not isfinite(self.score):
            raise ValueError("the score is not finite")


class Unreadable(Struct, frozen=True, kw_only=True):
    """A run whose id and category are all that can be used. It is stored, so that people see it."""

    id: RunId
    category: Category
    problem: str = ""


def read_claim(raw: Raw) -> Claim | Unreadable | None:
    """None if not even an id can be read."""
    try:
        return json.decode(raw, type=Claim)
    except ValidationError as problem:
        return _read_rest(raw, str(problem))
    except ValueError:
        return None


def _read_rest(raw: Raw, problem: str) -> Unreadable | None:
    try:
        found = json.decode(raw)
        return convert({"id": found["id"], "category": found["category"], "problem": problem}, Unreadable)
    except (ValueError, TypeError, KeyError):
        return None
