"""Names in the policies file that the app does not have: nothing of what is said there is ever used."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mulligan.policies.reading import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What an app has, by its code. `services` may be patterns; every name `is_possible` where a task computes it."""

    kinds: Collection[str]
    queues: Collection[str]
    services: Collection[str]
    is_possible: bool = False

    def has_service(self, name: str) -> bool:
        # That of everybody says nothing of who there is.
        return self.is_possible or name == "*" or any(_meet(name, known) for known in self.services if known != "*")


@dataclass(frozen=True, slots=True)
class UnknownNames:
    """Names by what they are said to be."""

    kinds: Sequence[str] = ()
    queues: Sequence[str] = ()
    services: Sequence[str] = ()

    def __iter__(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Of what there are some."""
        every = (("kinds", self.kinds), ("queues", self.queues), ("services", self.services))
        return iter([(what, names) for what, names in every if names])


def find_unknown_names(policies: Policies, names: Names) -> UnknownNames:
    """Without tasks nothing can be said of it."""
    if not names.kinds:
        return UnknownNames()
    return UnknownNames(
        policies.unknown_kinds(names.kinds),
        _missing(policies.queues, names.queues),
        [name for name in policies.services if not names.has_service(name)],
    )


def _missing(said: Iterable[str], known: Collection[str]) -> list[str]:
    return [name for name in said if name not in known]


def _meet(one: str, other: str) -> bool:
    """Whether there is a name that both mean."""
    stem, other_stem = one.removesuffix("*"), other.removesuffix("*")
    if one == stem and other == other_stem:
        return one == other
    return (one != stem and other_stem.startswith(stem)) or (other != other_stem and stem.startswith(other_stem))
