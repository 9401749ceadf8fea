"""The caller of a request: a key, its owner, and what it allows."""

from dataclasses import dataclass

from mulligan.records.key import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """`owner` is None for an administrator. `actor` is stored with what the caller does."""

    key: str
    owner: str | None
    actor: str
    scopes: frozenset[Scope]

    @property
    def is_admin(self) -> bool:
        return self.owner is None
