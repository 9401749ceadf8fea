"""Policies at run time: a YAML file that overrides the code, per kind and owner, without a restart."""

from mulligan.policies.file import NO_FILE, PolicyFile, load
from mulligan.policies.in_force import InForce
from mulligan.policies.owner import Owner
from mulligan.policies.queue import Queue
from mulligan.policies.quotas import Quotas
from mulligan.policies.reading import Policies, read
from mulligan.policies.section import Section
from mulligan.policies.unknown_names import Names, UnknownNames, find_unknown_names

__all__ = [
    "NO_FILE",
    "InForce",
    "Names",
    "Owner",
    "Policies",
    "PolicyFile",
    "Queue",
    "Quotas",
    "Section",
    "UnknownNames",
    "find_unknown_names",
    "load",
    "read",
]
