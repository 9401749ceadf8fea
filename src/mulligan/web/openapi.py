"""OpenAPI 3.1, generated from the table of routes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

import msgspec

from mulligan.errors import NotAllowed, StoreError
from mulligan.records.document import Document, is_record
from mulligan.records.key import Scope
from mulligan.task.task import Task
from mulligan.values.check import LONGEST_STRING
from mulligan.values.error import MulliganError
from mulligan.web.examples import PLACES, TEXTS, example
from mulligan.web.field_docs import field_docs
from mulligan.web.problems import ABOUT, MEDIA_TYPE, STATUS
from mulligan.web.route import Many, Messages, One, Route, Text

REFERENCE = "#/components/schemas/{name}"
LONGEST_IDEMPOTENCY_KEY = 200
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")

Tasks = Mapping[str, Task[..., Any, Any]]

PROBLEM: Document = {
    "title": "Problem",
    "description": "What is wrong with a request (RFC 9457).",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "For programs. It does not change."},
        "message": {"type": "string", "description": "For people, in one line. It may change."},
        "path": {
            "type": "string",
            "description": "The place of the mistake: `$.tags[3]` in the body, `?.limit` in the query.",
        },
        "twin": {"type": "string", "description": "The id of the job that holds the dedupe key or the id."},
        "requiredCredits": {"type": "number"},
        "availableCredits": {"type": "number"},
        "limit": {"type": "integer"},
        "live": {"type": "integer"},
    },
    "required": ["type", "status", "code", "message"],
}


def openapi(routes: Sequence[Route], tasks: Tasks, *, root: str = "") -> Document:
    """The whole document. `root` is the path below which the API is mounted."""
    return _Writer(routes, tasks).write(root)


class _Writer:
    def __init__(self, routes: Sequence[Route], tasks: Tasks) -> None:
        self.routes, self.tasks = routes, tasks
        kinds = list(dict.fromkeys(kind for route in routes for kind in _types(route)))
        schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
        self.schemas = dict(zip(kinds, schemas, strict=True))
        self.components: dict[str, Document] = {"Problem": PROBLEM, **components}
        self.responses: dict[str, Document] = {}
        self._describe_fields()

    def write(self, root: str) -> Document:
        paths: dict[str, Document] = {}
        for route in self.routes:
            paths.setdefault(route.template, {})[route.method.lower()] = self._operation(route)
        bodies = {route.body for route in self.routes}
        queries = {
            _name_of(self.schemas[route.query])
            for route in self.routes
            if route.query is not None and route.query not in bodies
        }
        kept = {name: schema for name, schema in sorted(self.components.items()) if name not in queries}
        return {
            "openapi": "3.1.0",
            "info": {"title": "mulligan", "version": version("mulligan"), "description": _INTRODUCTION},
            "servers": [{"url": root or "/"}],
            "tags": [{"name": group} for group in dict.fromkeys(route.group for route in self.routes)],
            "paths": paths,
            "components": {
                "schemas": kept,
                "responses": dict(sorted(self.responses.items())),
                "securitySchemes": {"key": _SECURITY},
            },
        }

    def _describe_fields(self) -> None:
        """Add what is written below the fields of records and bodies."""
        for kind in {each for route in self.routes for top in _classes(route) for each in _records_in(top)}:
            component = self.components.get(kind.__name__, {})
            for name, text in field_docs(kind).items():
                if part := component.get("properties", {}).get(name):
                    component["properties"][name] = {**part, "description": text}

    def _operation(self, route: Route) -> Document:
        about = " ".join((route.handler.__doc__ or "").split())
        summary, _, _ = about.partition(". ")
        found: Document = {
            "operationId": route.name,
            "tags": [route.group],
            "summary": summary.rstrip("."),
            "description": f"{about}\n\n{_access(route)}",
            "parameters": list(self._parameters(route)),
            "responses": self._responses(route),
            "security": _security(route),
        }
        if route.is_admin:
            found["x-admin"] = True
        if route.body is not None:
            found["requestBody"] = self._body(route)
        return found

    def _parameters(self, route: Route) -> Iterator[Document]:
        for name in route.parameters:
            schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_STRING}
            shown = PLACES.get(route.template.partition(f"/{{{name}")[0].rpartition("/")[2])
            yield _parameter(name, "path", schema, required=True, example=shown or example(schema, {}, name))
        if route.query is not None:
            component = self._component(route.query)
            for name, schema in component["properties"].items():
                shown = example(schema, self.components, name)
                yield _parameter(name, "query", schema, required=name in component.get("required", ()), example=shown)
        if route.is_change and route.scope is not None:
            schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_IDEMPOTENCY_KEY, "pattern": "^[!-~]+$"}
            more = {"description": _IDEMPOTENCY, "example": "order-17"}
            yield _parameter("Idempotency-Key", "header", schema, required=False, **more)

    def _component(self, kind: type[msgspec.Struct]) -> Document:
        return self.components[_name_of(self.schemas[kind])]

    def _body(self, route: Route) -> Document:
        assert route.body is not None
        schema = self.schemas[route.body]
        if "arguments" in route.body.__struct_fields__ and self.tasks:
            schema = {"oneOf": [self._call(schema, task) for task in self.tasks.values()]}
        content = {"schema": schema, "example": example(schema, self.components)}
        is_required = bool(self._component(route.body).get("required"))
        return {"required": is_required, "content": {JSON: content}}

    def _call(self, schema: Document, task: Task[..., Any, Any]) -> Document:
        """A call of one public task, with the schema of its arguments."""
        prefix = _NO_NAME.sub("_", task.name)
        arguments, others = task.payload.schema(f"#/components/schemas/{prefix}.{{name}}")
        self.components |= {f"{prefix}.{name}": other for name, other in others.items()}
        properties = {"kind": {"const": task.name}, "arguments": arguments}
        required = ["kind", "arguments"] if arguments.get("required") else ["kind"]
        about = " ".join((task.function.__doc__ or "").split())
        own = {"type": "object", "properties": properties, "required": required}
        return {"title": task.name, **({"description": about} if about else {}), "allOf": [schema, own]}

    def _responses(self, route: Route) -> Document:
        answers = {str(route.status): self._answer(route)}
        problems: dict[int, list[str]] = {}
        for status, code in dict.fromkeys(_problems(route)):
            problems.setdefault(status, []).append(code)
        answers |= {str(status): self._problem(status, codes) for status, codes in sorted(problems.items())}
        if NotAllowed in route.errors:
            answers["4XX"] = self._problem(403, ["NOT_ALLOWED"])
        return answers

    def _problem(self, status: int, codes: Sequence[str]) -> Document:
        """Many routes have the same problems, so they are described once."""
        name = ".".join(codes)
        self.responses.setdefault(name, _problem(status, codes))
        return {"$ref": f"#/components/responses/{name}"}

    def _answer(self, route: Route) -> Document:
        match route.answer:
            case None:
                return {"description": "Done."}
            case Text():
                content = {
                    kind: {"schema": {"type": "string"}, "example": TEXTS[kind]} for kind in route.answer.media_types
                }
                return {"description": "The answer.", "content": content}
            case Messages():
                schema = self._message(route.answer)
                content = {EVENT_STREAM: {"schema": schema, "example": self._example_message(route.answer)}}
                return {"description": "Messages, until one side ends the connection.", "content": content}
            case One() | Many():
                schema = self.schemas[route.answer.type]
                content = {"schema": schema, "example": example(schema, self.components)}
                return {"description": "The answer.", "content": {JSON: content}}

    def _message(self, answer: Messages) -> Document:
        """One message as its reader gets it. OpenAPI 3.1 has no word for a stream, so the schema is that of an item."""
        data = {
            "type": "string",
            "contentMediaType": JSON,
            "contentSchema": {"anyOf": [self.schemas[kind] for kind in answer.types]},
        }
        properties = {"event": {"type": "string"}, "data": data, "id": {"type": "string"}}
        return {"type": "object", "properties": properties, "required": ["event", "data"]}

    def _example_message(self, answer: Messages) -> Document:
        data = example(self.schemas[answer.types[0]], self.components)
        return {"event": data["type"], "data": msgspec.json.encode(data).decode(), "id": str(data["position"])}


def _types(route: Route) -> Iterator[Any]:
    """The types of what it reads and answers."""
    yield from (kind for kind in (route.query, route.body) if kind is not None)
    match route.answer:
        case One() | Many():
            yield route.answer.type
        case Messages():
            yield from route.answer.types


def _classes(route: Route) -> Iterator[type]:
    yield from (kind for kind in (route.query, route.body) if kind is not None)
    match route.answer:
        case One() | Many():
            yield route.answer.record
        case Messages():
            yield from route.answer.records


def _records_in(kind: Any, seen: frozenset[Any] = frozenset()) -> Iterator[type]:
    """The class, and the classes of its fields."""
    if isinstance(kind, type) and is_record(kind) and kind not in seen:
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _records_in(hint, seen | {kind})
    for part in get_args(kind):
        yield from _records_in(part, seen)


def _name_of(schema: Document) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _parameter(name: str, place: str, schema: Document, *, required: bool, **more: Any) -> Document:
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": place, "required": required, "schema": schema, **described, **more}


def _security(route: Route) -> list[Document]:
    """An empty one: without a key."""
    if route.scope is None:
        return []
    return [{"key": [str(route.scope)]}, *([{}] if route.without_key else [])]


def _access(route: Route) -> str:
    if route.scope is None:
        return "It needs no key."
    if route.without_key is not None and not route.is_admin:
        return f"It needs no key. A key needs the scope `{route.scope}`."
    admin = ", of an administrator" if route.is_admin else ""
    return f"It needs a key with the scope `{route.scope}`{admin}."


def _problems(route: Route) -> Iterator[tuple[int, str]]:
    """Status and code of everything that can be wrong."""
    if route.scope is not None:
        yield from ((401, "UNAUTHORIZED"), (403, "FORBIDDEN"), (429, "RATE_LIMITED"), _listed(StoreError))
    has_key = route.is_change and route.scope is not None
    if route.parameters or route.query is not None or route.body is not None or has_key:
        # Also an Idempotency-Key that cannot be one.
        yield 400, "VALIDATION_ERROR"
    if route.parameters:
        # No path has a line break, and no name either.
        yield 404, "NOT_FOUND"
    if route.body is not None:
        yield from ((400, "MALFORMED_BODY"), (408, "TOO_SLOW"), (413, "TOO_LARGE"), (415, "UNSUPPORTED_MEDIA_TYPE"))
    if has_key:
        yield from ((409, "REQUEST_IN_FLIGHT"), (422, "IDEMPOTENCY_KEY_REUSED"))
    yield from route.problems
    yield from map(_listed, route.errors)
    yield from ((414, "URL_TOO_LONG"), (431, "HEADERS_TOO_LARGE"))


def _listed(error: type[MulliganError]) -> tuple[int, str]:
    return next(found for kind, found in STATUS.items() if issubclass(error, kind))


def _problem(status: int, codes: Sequence[str]) -> Document:
    described = "\n".join(f"- `{code}`: {ABOUT[code]}" for code in codes)
    examples = {
        code: {"value": {"type": "about:blank", "status": status, "code": code, "message": ABOUT[code]}}
        for code in codes
    }
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}
    return {"description": described, "content": {MEDIA_TYPE: content}}


_SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of the API. Its scopes: " + ", ".join(f"`{scope}`" for scope in Scope) + ".",
}
_INTRODUCTION = (
    "Durable jobs, and what happens when they fail. Every request has a key: `Authorization: Bearer mk_…`. An owner's "
    "key sees and moves the jobs of that owner; a job of another owner is not found. Errors are problem details with "
    "a `code` for programs and a `message` for people."
)
_IDEMPOTENCY = (
    "Any string of your own. The same request with the same key is carried out once, and answered as the first time, "
    "for 24 hours."
)
