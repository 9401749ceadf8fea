"""Arguments and results as JSON, and back into the types of the task's annotations."""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_type_hints

import msgspec

from mulligan.errors import BadTask, InvalidArguments, MulliganError, PayloadTooLarge

LARGEST = 256 * 1024

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, *_BY_KEYWORD)


class PayloadError(MulliganError):
    """Stored arguments, or a result, that cannot be converted."""


class Misfit(PayloadError):
    """Stored arguments of another version of the task, whose signature has other names or types."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"the arguments belong to another version of task {kind!r}: {problem}")
        self.problem = problem


class Payload:
    """The JSON form of one function's arguments and result. Types are resolved when first needed."""

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        self._function = function
        self._kind = kind
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._takes_keywords_only = all(parameter.kind in _BY_KEYWORD for parameter in parameters)
        self._names = self._signature.parameters.keys()
        are_positional = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        self._positional = tuple(self._names) if are_positional else ()
        self._required = {parameter.name for parameter in parameters if _is_required(parameter)}
        self._more = next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
        self._arguments: msgspec.json.Decoder[dict[str, Any]] | None = None
        self._result: msgspec.json.Decoder[Any] | None = None

    def prepare(self) -> None:
        """Resolve the annotations. Raises BadTask if they cannot be carried as JSON."""
        hints = self._hints()
        self._arguments = self._decoder(self._fields(hints))
        self._result = self._decoder(hints.get("return", Any))

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name. Raises InvalidArguments if they do not fit the signature."""
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(self._kind, str(error)) from None

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, in_order: bool = False) -> str:
        """The arguments as JSON, checked against the signature and its annotations.

        `in_order`: sets and keys are sorted, so that equal arguments are the same JSON in every process.
        """
        encoded = self._encode(self._by_name(args, kwargs), in_order=in_order)
        try:
            self._decoders()[0].decode(encoded)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(self._kind, str(error)) from None
        return encoded.decode()

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not kwargs and len(self._required) <= len(args) <= len(self._positional):
            # What `bind` does, in a fifth of the time.
            return dict(zip(self._positional, args, strict=False))
        return self.match(args, kwargs).arguments

    def _encode(self, arguments: dict[str, Any], *, in_order: bool) -> bytes:
        try:
            encoded = _encode(arguments, _orderly if in_order else _encoder)
        except TypeError as error:
            raise InvalidArguments(self._kind, str(error)) from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise InvalidArguments(self._kind, f"they cannot be written as JSON: {error}") from None
        if len(encoded) > LARGEST:
            raise PayloadTooLarge(self._kind, len(encoded), LARGEST)
        return encoded

    def encode_incomplete(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, in_order: bool = False) -> str:
        """Like `encode`, but some arguments may be missing, and annotations are not checked."""
        try:
            bound = self._signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(self._kind, str(error)) from None
        return self._encode(bound.arguments, in_order=in_order).decode()

    def decode(self, arguments: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the function.

        Raises Misfit if their names or types differ from the function's, PayloadError if no version could read them.
        """
        try:
            values = self._decoders()[0].decode(self._fit_names(arguments))
        except Misfit:
            raise
        except msgspec.ValidationError as error:
            # Types were checked at enqueue, so another version wrote these. An error of a type's own code has a cause.
            if error.__cause__ is None and arguments.lstrip().startswith("{"):
                raise Misfit(self._kind, str(error)) from None
            raise PayloadError(str(error)) from error
        except (ValueError, TypeError, RecursionError) as error:
            raise PayloadError(str(error)) from error
        if self._takes_keywords_only:
            return (), values
        bound = inspect.BoundArguments(self._signature, values)
        return bound.args, bound.kwargs

    def convert(self, arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name, already read as JSON, for the function. Raises InvalidArguments if they do not fit."""
        try:
            return self.decode(msgspec.json.encode(arguments).decode())
        except Misfit as misfit:
            raise InvalidArguments(self._kind, misfit.problem) from None
        except PayloadError as error:
            raise InvalidArguments(self._kind, str(error)) from None

    def schema(self, template: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The JSON schema of the arguments by name, and the schemas that it refers to.

        `template` is how a schema is referred to: `#/components/schemas/{name}`.
        """
        wanted = self._fields(self._hints())
        try:
            (found,), others = msgspec.json.schema_components([wanted], schema_hook=_schema, ref_template=template)
        except TypeError:
            # A type that only its own code can read: nothing is known of it but that it is JSON.
            return {"type": "object"}, {}
        own = others.pop(found["$ref"].removeprefix(template.partition("{name}")[0]))
        if self._more is None:
            own["additionalProperties"] = False
        return own, others

    def find_problem(self, arguments: Any) -> str | None:
        """Why these arguments, already read as JSON, do not fit the function; None if they do."""
        try:
            self.decode(msgspec.json.encode(arguments).decode())
        except Misfit as misfit:
            return misfit.problem
        except PayloadError as error:
            return str(error)
        return None

    def _fit_names(self, arguments: str) -> str | bytes:
        """The arguments, with unknown names moved into `**kwargs`."""
        given = _by_name(arguments)
        unknown, missing = given.keys() - self._names, self._required - given.keys()
        if missing or (unknown and self._more is None):
            raise Misfit(self._kind, _describe_misfit(unknown, missing))
        if not unknown:
            return arguments
        # A parameter of a newer version belongs to the `**kwargs` of this one.
        assert self._more is not None
        more = _by_name(bytes(given.get(self._more, b"{}"))) | {name: given.pop(name) for name in unknown}
        return msgspec.json.encode({**given, self._more: more})

    def encode_result(self, value: Any) -> str:
        try:
            encoded = _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PayloadError(f"the result cannot be written as JSON: {error}") from error
        if len(encoded) > LARGEST:
            raise PayloadError(f"the result takes {len(encoded):,} bytes as JSON, the limit is {LARGEST:,}")
        return encoded.decode()

    def decode_result(self, value: Any) -> Any:
        """A result already read as JSON, converted to the return annotation."""
        return self._decoders()[1].decode(msgspec.json.encode(value))

    def _decoders(self) -> tuple[msgspec.json.Decoder[dict[str, Any]], msgspec.json.Decoder[Any]]:
        if self._arguments is None or self._result is None:
            self.prepare()
        assert self._arguments is not None and self._result is not None
        return self._arguments, self._result

    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except Exception:
            # Names that only the type checker knows: the values pass unconverted.
            return {}

    def _fields(self, hints: dict[str, Any]) -> Any:
        fields = {}
        for name, parameter in self._signature.parameters.items():
            hint: Any = hints.get(name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                hint = tuple.__class_getitem__((hint, ...))
            elif parameter.kind is parameter.VAR_KEYWORD:
                hint = dict.__class_getitem__((str, hint))
            fields[name] = hint if _is_required(parameter) else NotRequired[hint]
        return TypedDict("Arguments", fields)  # type: ignore[operator]

    def _decoder(self, wanted: Any) -> msgspec.json.Decoder[Any]:
        try:
            return msgspec.json.Decoder(wanted, dec_hook=_from_json)
        except TypeError as error:
            raise BadTask(f"the annotations of task {self._kind!r} cannot be carried as JSON: {error}") from error


def _describe_misfit(unknown: Iterable[str], missing: Iterable[str]) -> str:
    strange, lacking = ", ".join(map(repr, sorted(unknown))), ", ".join(map(repr, sorted(missing)))
    parts = [f"it does not take {strange}"] if strange else []
    parts += [f"it needs {lacking}"] if lacking else []
    return " and ".join(parts)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.kind in _NAMED and parameter.default is parameter.empty


def _to_json(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a value of type {type(value).__qualname__} cannot be written as JSON")


def _from_json(wanted: type, value: Any) -> Any:
    if isinstance(value, wanted):
        return value
    if issubclass(wanted, os.PathLike):
        concrete: Any = Path if wanted is os.PathLike else wanted
        return concrete(value)
    if hasattr(wanted, "model_validate"):
        return wanted.model_validate(value)
    raise TypeError(f"a value of type {wanted.__qualname__} cannot be read from JSON")


def _schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a type that msgspec does not know."""
    if issubclass(kind, os.PathLike):
        return {"type": "string", "format": "path"}
    return {}


_by_name = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encoder = msgspec.json.Encoder(enc_hook=_to_json)
_orderly = msgspec.json.Encoder(enc_hook=_to_json, order="deterministic")


def _encode(value: Any, encoder: msgspec.json.Encoder = _encoder) -> bytes:
    if value is None:
        return b"null"
    encoded = encoder.encode(value)
    # JSON has no NaN and no infinity: they would silently become null.
    if b"null" in encoded and any(not math.isfinite(number) for number in _floats(value)):
        raise ValueError("JSON cannot represent NaN and infinity")
    return encoded


def _floats(value: Any) -> Iterator[float]:
    pending = [msgspec.to_builtins(value, enc_hook=_to_json)]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            yield item
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
