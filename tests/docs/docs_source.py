"""Reads what the code says about its own names: annotations as written, defaults as computed, docstrings."""

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from types import ModuleType
from typing import Any

# A signature that fits into this is written on one line.
WIDTH = 110


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str
    default: str | None
    stars: str = ""
    is_keyword: bool = False

    def __str__(self) -> str:
        shown = self.stars + self.name + (f": {self.type}" if self.type else "")
        if self.default is None:
            return shown
        return f"{shown} = {self.default}" if self.type else f"{shown}={self.default}"


@dataclass(frozen=True)
class Member:
    """A field or a property of a class."""

    name: str
    type: str
    meaning: str


def doc(thing: Any) -> str:
    """The docstring of the thing itself, without those that dataclasses generate."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    if text is None or re.match(rf"{re.escape(getattr(thing, '__name__', ''))}\(", text):
        return ""
    return inspect.cleandoc(text)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Without `self`. Types are spelled as in the source, so aliases such as `Duration` keep their names."""
    plain = inspect.unwrap(function)
    given = _parsed(plain).args
    listed = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    written = {each.arg: each for each in listed if each is not None}
    found = [each for each in inspect.signature(plain).parameters.values() if each.name != "self"]
    return [_parameter(each, _annotation(written[each.name].annotation)) for each in found]


def _parameter(found: inspect.Parameter, written: str) -> Parameter:
    default = None if found.default is found.empty else value(found.default)
    stars = {found.VAR_POSITIONAL: "*", found.VAR_KEYWORD: "**"}.get(found.kind, "")
    return Parameter(found.name, written, default, stars, found.kind is found.KEYWORD_ONLY)


def fields(kind: type) -> list[Parameter]:
    """The parameters of a dataclass whose `__init__` the decorator makes."""
    types = {member.name: member.type for member in members(kind)}
    found = [each for each in inspect.signature(kind).parameters.values() if not each.name.startswith("_")]
    return [_parameter(each, types[each.name]) for each in found]


def is_written(function: Callable[..., Any]) -> bool:
    """Whether it has source code; functions that a decorator generates have none."""
    try:
        return bool(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        return False


def signature(name: str, given: list[Parameter], returns: str = "") -> str:
    shown = [str(parameter) for parameter in given]
    keywords = next((at for at, one in enumerate(given) if one.is_keyword), None)
    if keywords is not None and not any(one.stars == "*" for one in given):
        shown.insert(keywords, "*")
    end = f") -> {returns}" if returns else ")"
    line = f"{name}({', '.join(shown)}{end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in shown), end])


def returned(function: Callable[..., Any]) -> str:
    return _annotation(_parsed(inspect.unwrap(function)).returns)


def annotations(function: Callable[..., Any]) -> list[str]:
    return [returned(function), *(parameter.type for parameter in parameters(function))]


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(function))


def members(kind: type) -> list[Member]:
    """Annotated fields and properties, those of base classes first."""
    found: dict[str, Member] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("mulligan"):
            found |= {member.name: member for member in _own_members(one) if not member.name.startswith("_")}
    return list(found.values())


def _own_members(kind: type) -> Iterator[Member]:
    body = _class(kind).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Member(node.target.id, _annotation(node.annotation), _text(following))
        elif isinstance(node, ast.FunctionDef) and "property" in map(ast.unparse, node.decorator_list):
            yield Member(node.name, _annotation(node.returns), ast.get_docstring(node) or "")


def attributes(kind: type) -> list[str]:
    """The attributes that `__init__` sets, in the order of the source."""
    found: dict[str, None] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("mulligan") and "__init__" in vars(one):
            found |= dict.fromkeys(_set_by(one.__init__))
    return [name for name in found if not name.startswith("_") and name != "args"]


def _set_by(init: Callable[..., Any]) -> Iterator[str]:
    for node in ast.walk(_parsed(init)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def public(kind: type) -> dict[str, Any]:
    """Public methods and properties, those of base classes first, in the order of the source."""
    own = [one for one in reversed(kind.__mro__) if one.__module__.startswith("mulligan")]
    found = {name: each for one in own for name, each in vars(one).items() if not name.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isfunction(each) or isinstance(each, property)}


def verbs(kind: type) -> dict[str, Callable[..., Any]]:
    """Public methods."""
    return {name: each for name, each in public(kind).items() if inspect.isfunction(each)}


def named(annotation: str) -> list[str]:
    return re.findall(r"\b[A-Z]\w+", annotation)


def resolve(home: Any, name: str) -> Any:
    """The object that a name in an annotation refers to; None if only type checkers know the name."""
    return vars(sys.modules[inspect.unwrap(home).__module__]).get(name)


def alias(module: ModuleType, name: str) -> str | None:
    """The right side of `Duration = timedelta | float | str`, wherever that is imported from."""
    for node in _module(module.__name__).body:
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return _annotation(node.value)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value:
            return _annotation(node.value)
        if isinstance(node, ast.ImportFrom) and name in [each.name for each in node.names] and node.module:
            return alias(importlib.import_module(node.module), name) if node.module.startswith("mulligan") else None
    return None


def value(given: Any) -> str:
    """A default as a caller would write it."""
    match given:
        case enum.Enum():
            return value(given.value)
        case str():
            return f'"{given}"'
        case bool() | None:
            return repr(given)
        case timedelta():
            return f'"{duration(given)}"'
        case int():
            return f"{given:_}"
        case float():
            return f"{given:g}"
        case datetime():
            return given.isoformat()
        case tuple() | list() if given:
            return f"[{', '.join(map(value, given))}]"
        case _ if dataclasses.is_dataclass(given):
            return _constructed(given)
        case _ if callable(given):
            return str(getattr(given, "__name__", type(given).__name__))
        case _:
            return repr(given)


def _constructed(given: Any) -> str:
    """`Exponential("15s", factor=2, jitter=0.2)`: the first value without its name."""
    parts = {each.name: getattr(given, each.name) for each in dataclasses.fields(given)}
    shown = [f"{name}={value(part)}" for name, part in parts.items() if part or isinstance(part, int)]
    first = [part.partition("=")[2] for part in shown[:1]]
    return f"{type(given).__name__}({', '.join([*first, *shown[1:]])})"


def duration(length: timedelta) -> str:
    seconds, parts = length.total_seconds(), []
    if seconds < 1:
        return f"{seconds * 1000:g}ms" if seconds else "0s"
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, size)
        parts += [f"{count:g}{unit}"] if count else []
    return "".join([*parts, f"{seconds:.3g}s"] if seconds else parts)


def _annotation(node: ast.expr | None) -> str:
    # The arguments of a task have the types of its function.
    if node is None or ast.unparse(node) in ("P.args", "P.kwargs"):
        return ""
    return re.sub(r"'([^']+)'", r"\1", ast.unparse(node)).replace("...", "…")


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def _parsed(function: Callable[..., Any]) -> ast.FunctionDef:
    node = _source(function).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node  # type: ignore[return-value]


def _class(kind: type) -> ast.ClassDef:
    return next(
        node
        for node in ast.walk(_module(kind.__module__))
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )


@cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(name)))


@cache
def _source(function: Callable[..., Any]) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def texts(kind: type) -> dict[str, str]:
    """The docstrings of attributes and properties of a class, in its body or where `__init__` sets them."""
    found: dict[str, str] = {}
    for block in ast.walk(_class(kind)):
        body = getattr(block, "body", None)
        if not isinstance(body, list):
            continue
        for node, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.Assign | ast.AnnAssign) and _text(following):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= dict.fromkeys(
                    (ast.unparse(target).removeprefix("self.") for target in targets), _text(following)
                )
    return found | {one.name: one.meaning for one in _own_members(kind) if one.meaning}
