"""The categories whose rules are installed: each is an environment of gymnasium."""

from functools import cache
from typing import Any

import gymnasium

ENVIRONMENTS = {
    "cartpole": "CartPole",
    "cliff-walking": "CliffWalking",
    "frozen-lake": "FrozenLake",
    "mountain-car": "MountainCar",
    "taxi": "Taxi",
}


class NoRules(Exception):
    def __init__(self, category: str) -> None:
        super().__init__(f"no rules are installed for the category {category!r}; there are: {', '.join(ENVIRONMENTS)}")


def environment_of(category: str) -> str:
    """The environment in which runs of a category are played, in the newest installed version: `CartPole-v1`.

    Raises NoRules.
    """
    name = ENVIRONMENTS.get(category)
    if name is None:
        raise NoRules(category)
    return _newest(name)


@cache
def _newest(name: str) -> str:
    specs = [spec for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    return max(specs, key=lambda spec: spec.version or 0).id


def open_environment(environment: str) -> "gymnasium.Env[Any, Any]":
    # The checker is for authors of environments, and doubles the time of a step.
    return gymnasium.make(environment, disable_env_checker=True)


def name_of(environment: str) -> str:
    """The name without the version."""
    return environment.rpartition("-v")[0] or environment
