"""Plays a replay by the rules of its environment, and judges what its player claimed."""

from collections.abc import Sequence
from math import isclose
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from apps.runs.claim import Claim
from apps.runs.environments import environment_of, name_of, open_environment
from apps.runs.outcome import Finding, Outcome

LARGEST_REPLAY = 2**20
MOST_ACTIONS = 100_000
TOLERANCE = 1e-6


class BadReplay(Exception):
    """The replay cannot be read: whether the run was honest stays open."""


class Replay(Struct, frozen=True):
    actions: Annotated[list[int], Meta(max_length=MOST_ACTIONS)]


class Foul(Exception):
    """The replay breaks the rules of its environment."""


def read_replay(body: bytes) -> Replay:
    """Raises BadReplay."""
    try:
        return json.decode(body, type=Replay)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError) as problem:
        raise BadReplay(str(problem)) from None


def verify_claim(claim: Claim, replay: Replay, record: float | None) -> Finding:
    """`record` is the best score that was verified before in this category. Raises NoRules."""
    environment = environment_of(claim.category)
    if name_of(claim.environment) != name_of(environment):
        return Finding(Outcome.FAILED, f"played in {claim.environment}, not in {name_of(environment)}", None)
    try:
        score = play(environment, claim.seed, replay.actions)
    except Foul as foul:
        return Finding(Outcome.FAILED, str(foul), None)
    return judge(claim, score, environment, record)


def play(environment: str, seed: int, actions: Sequence[int]) -> float:
    """The score of these actions. Raises Foul."""
    opened = open_environment(environment)
    try:
        opened.reset(seed=seed)
        number_of_actions = int(getattr(opened.action_space, "n", 0))
        score, is_over = 0.0, False
        for position, action in enumerate(actions):
            if is_over:
                raise Foul(f"the run was over after {position} actions, but the replay has {len(actions)}")
            if not 0 <= action < number_of_actions:
                raise Foul(f"action {position} is not one of 0 to {number_of_actions - 1}")
            _, reward, terminated, truncated, _ = opened.step(action)
            score, is_over = score + float(reward), terminated or truncated
    finally:
        opened.close()
    if not is_over:
        raise Foul(f"the replay stops after {len(actions)} actions, before the run was over")
    return score


def judge(claim: Claim, score: float, environment: str, record: float | None) -> Finding:
    if not isclose(score, claim.score, abs_tol=TOLERANCE):
        return Finding(Outcome.FAILED, f"claimed {claim.score:g}, scored {score:g}", score)
    if claim.environment != environment:
        reason = f"played in {claim.environment}, verified in {environment}"
        return Finding(Outcome.NEEDS_REVIEW, reason, score)
    if record is None or score > record + TOLERANCE:
        before = "the first of its category" if record is None else f"the best before was {record:g}"
        return Finding(Outcome.NEEDS_REVIEW, f"a new record; {before}", score)
    return Finding(Outcome.PASSED, "the replay scores what was claimed", score)
