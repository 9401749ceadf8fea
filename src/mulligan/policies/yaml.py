"""Reads YAML with the core schema, in which 22:00 and `no` are strings. Duplicate keys are an error."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from mulligan.errors import BadPolicy

MOST_VALUES = 100_000


class _Loader(yaml.SafeLoader):
    """Without the surprises of YAML 1.1: no base 60, no octals, no dates, no `yes` and `off`."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})\\Z"), list(_first))


def parse(content: bytes) -> Any:
    """The values in a file's content. Raises BadPolicy with the line if it is not YAML."""
    try:
        loader = _Loader(content.decode())
        node = loader.get_single_node()
        if node is None:
            return None
        # Checked before construction: nested aliases fit in a line but could fill the memory.
        if _size(node, {}) > MOST_VALUES:
            raise BadPolicy(f"it has more than {MOST_VALUES:,} values with its aliases expanded, which is the limit")
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise BadPolicy(f"it is not valid YAML: {_describe(error)}") from None
    except UnicodeDecodeError as error:
        raise BadPolicy(f"it is not YAML: byte {error.start + 1:,} is not valid UTF-8") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadPolicy(f"it is not valid YAML: {str(error).splitlines()[0]}") from None


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """The number of values with every alias expanded."""
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.constructor.ConstructorError(None, None, "it contains itself", node.start_mark)
        return sizes[id(node)]
    sizes[id(node)] = 0
    match node:
        case yaml.MappingNode(value=pairs):
            inner = [one for pair in pairs for one in pair]
        case yaml.SequenceNode(value=inner):
            pass
        case _:
            inner = []
    sizes[id(node)] = 1 + sum(_size(one, sizes) for one in inner)
    return sizes[id(node)]


def _describe(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"{error.problem or error.context}{where}"
