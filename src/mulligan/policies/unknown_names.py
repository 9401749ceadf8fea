"""Names in the policies file that the app does not have: their values would never be used."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mulligan.policies.reading import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names in an app's code. `services` may be patterns. `is_possible`: a task computes names, so any may
    occur."""

    kinds: Collection[str]
    queues: Collection[str]
    services: Collection[str]
    is_possible: bool = False

    def has_service(self, name: str) -> bool:
        # The pattern '*' matches everything and proves nothing.
        return self.is_possible or name == "*" or any(_meet(name, known) for known in self.services if known != "*")


@dataclass(frozen=True, slots=True)
class UnknownNames:
    """The unknown names, by section of the file."""

    kinds: Sequence[str] = ()
    queues: Sequence[str] = ()
    services: Sequence[str] = ()

    def __iter__(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The sections with unknown names."""
        every = (("kinds", self.kinds), ("queues", self.queues), ("services", self.services))
        return iter([(what, names) for what, names in every if names])


def find_unknown_names(policies: Policies, names: Names) -> UnknownNames:
    """The names that the app does not have; none if the app has no tasks."""
    if not names.kinds:
        return UnknownNames()
    return UnknownNames(
        policies.unknown_kinds(names.kinds),
        _missing(policies.queues, names.queues),
        [name for name in policies.services if not names.has_service(name)],
    )


def _missing(given: Iterable[str], known: Collection[str]) -> list[str]:
    return [name for name in given if name not in known]


def _meet(one: str, other: str) -> bool:
    """Whether a name can match both."""
    stem, other_stem = one.removesuffix("*"), other.removesuffix("*")
    if one == stem and other == other_stem:
        return one == other
    return (one != stem and other_stem.startswith(stem)) or (other != other_stem and stem.startswith(other_stem))
