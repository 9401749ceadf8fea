"""Players that make runs by really playing, and cheats that change what an honest run claims."""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from apps.runs.claim import Claim
from apps.runs.environments import environment_of, name_of, open_environment

MOST_STEPS = 2_000
NAMES = ("ada", "bea", "chen", "dara", "eli", "femi", "gil", "hana")


class Submission(Struct, frozen=True):
    claim: Claim
    actions: list[int]


def play_run(run: str, category: str, *, seed: int, submitted_at: datetime, player: str | None = None) -> Submission:
    """An honest run, with the score that it really has."""
    environment = environment_of(category)
    actions, score = _play(environment, seed)
    claim = Claim(
        id=run,
        category=category,
        player=player or NAMES[seed % len(NAMES)],
        environment=environment,
        seed=seed,
        score=score,
        submitted_at=submitted_at,
    )
    return Submission(claim, actions)


def _play(environment: str, seed: int) -> tuple[list[int], float]:
    choose = _STRATEGIES.get(name_of(environment), _any_action)
    chance = random.Random(seed)  # noqa: S311
    opened = open_environment(environment)
    observation, _ = opened.reset(seed=seed)
    actions, score, is_over = list[int](), 0.0, False
    while not is_over and len(actions) < MOST_STEPS:
        actions.append(choose(observation, chance, int(opened.action_space.n)))  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, _ = opened.step(actions[-1])
        score, is_over = score + float(reward), terminated or truncated
    opened.close()
    return actions, score


def _any_action(_: Any, chance: random.Random, number: int) -> int:
    return chance.randrange(number)


def _balance(observation: Any, chance: random.Random, _: int) -> int:
    # Now and then a mistake, so that scores differ.
    return chance.randrange(2) if chance.random() < 0.3 else int(observation[2] + observation[3] > 0)


def _swing(observation: Any, _: random.Random, __: int) -> int:
    return 2 if observation[1] >= 0 else 0


def _walk(observation: Any, _: random.Random, __: int) -> int:
    """Up, along the cliff, and down."""
    row, column = divmod(int(observation), 12)
    if column == 11:
        return 2
    return 0 if row == 3 else 1


_STRATEGIES: dict[str, Callable[[Any, random.Random, int], int]] = {
    "CartPole": _balance,
    "CliffWalking": _walk,
    "MountainCar": _swing,
}


# Cheats


def inflate(honest: Submission) -> Submission:
    """Claims a higher score."""
    return replace(honest, claim=replace(honest.claim, score=honest.claim.score + 100))


def borrow(honest: Submission) -> Submission:
    """Claims another seed, in which these actions lead elsewhere."""
    return replace(honest, claim=replace(honest.claim, seed=honest.claim.seed + 1, score=honest.claim.score + 1))


def go_on(honest: Submission) -> Submission:
    """Goes on acting after the end."""
    return replace(honest, actions=[*honest.actions, 0, 0, 0], claim=replace(honest.claim, score=honest.claim.score))


def stop_early(honest: Submission) -> Submission:
    return replace(honest, actions=honest.actions[:-1])


def invent_action(honest: Submission) -> Submission:
    return replace(honest, actions=[10**12, *honest.actions[1:]])


def use_old_version(honest: Submission) -> Submission:
    """Not a cheat: the run was played in another version of the environment."""
    return replace(honest, claim=replace(honest.claim, environment=f"{name_of(honest.claim.environment)}-v99"))


CHEATS = (inflate, borrow, go_on, stop_early, invent_action)
