"""The reference of the HTTP API, written from its OpenAPI document: `make docs` writes it anew."""

from collections.abc import Iterator
from typing import Any

import docs_api
from docs_documents import records, written_type

from mulligan.web.api import GROUPS
from mulligan.web.openapi import openapi
from mulligan.web.problems import ABOUT
from mulligan.web.route import collect

PAGE = docs_api.REFERENCE / "http.md"

INTRODUCTION = """# The HTTP API

<!-- Written by tests/docs/docs_http.py from the code: run `make docs`. -->

The same as `/openapi.json` and `/docs` of a server, in short. [A guide](../guides/http-api.md) shows how to use it.
Answers are the [JSON documents](documents.md) that `--json` prints. A field or parameter with `?` is optional.

Every request besides those of the group Server has a key, `Authorization: Bearer mk_…`, with the scope that is named.
An owner's key sees the jobs of that owner only; *admin* means that only an administrator's key will do. Every change
takes an `Idempotency-Key`.
"""


def document() -> dict[str, Any]:
    return openapi(collect(GROUPS), {})


def page() -> str:
    found = document()
    parts = [INTRODUCTION]
    for tag in found["tags"]:
        parts.append(f"## {tag['name']}\n")
        for path, methods in found["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag["name"]]:
                    parts.append("\n".join(operation_lines(path, method.upper(), operation, found)) + "\n")
    parts += ["## Problems\n", problems(found)]
    return "\n".join(parts)


def operation_lines(path: str, method: str, operation: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method} {path}`\n"
    about, _, _ = operation["description"].partition("\n\n")
    yield about + "\n"
    admin = ", admin" if operation.get("x-admin") else ""
    scopes = [f"`{scope}`" for need in operation["security"] for scope in need.get("key", ())]
    optional = "; see above for requests without a key" if {} in operation["security"] else ""
    yield f"- scope: {', '.join(scopes) or 'none, no key is needed'}{admin}{optional}"
    parameters = [each for each in operation["parameters"] if each["in"] == "query"]
    if parameters:
        query = (field(each["name"], each["schema"], required=each["required"]) for each in parameters)
        yield f"- query: {', '.join(query)}"
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield f"- body: {', '.join(fields(schema, found))}"
    yield f"- answer: {', '.join(answers(operation, found))}"
    others = [answer for status, answer in operation["responses"].items() if status[0] != "2"]
    if codes := dict.fromkeys(code for answer in others for code in own_codes(answer)):
        yield f"- problems: {', '.join(f'`{code}`' for code in codes)}"


def field(name: str, schema: dict[str, Any], *, required: bool) -> str:
    return f"`{name}{'' if required else '?'}: {type_of(schema)}`"


def type_of(schema: dict[str, Any]) -> str:
    match schema:
        case {"enum": [*values]}:
            return " | ".join(f'"{value}"' for value in values)
        case {"anyOf": [*parts]}:
            return " | ".join(map(type_of, parts))
    return written_type(schema)


def fields(schema: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    component = found["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name, part in component["properties"].items():
        yield field(name, part, required=name in component.get("required", ()))


def answers(operation: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        for kind, media in answer.get("content", {}).items():
            if kind != "application/json":
                yield f"{status} `{kind}`"
            elif written_type(media["schema"]) in records():
                yield f"{status} `{written_type(media['schema'])}`"
            else:
                yield f"{status} {', '.join(fields(media['schema'], found))}"


# Those that any request with a key, a body or a query may have.
COMMON = {
    *("UNAUTHORIZED", "FORBIDDEN", "RATE_LIMITED", "STORE_UNAVAILABLE", "VALIDATION_ERROR", "MALFORMED_BODY"),
    *("TOO_SLOW", "TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "REQUEST_IN_FLIGHT", "IDEMPOTENCY_KEY_REUSED"),
    *("URL_TOO_LONG", "HEADERS_TOO_LARGE"),
}


def own_codes(answer: dict[str, Any]) -> list[str]:
    name = answer.get("$ref", "").rpartition("/")[2]
    return [code for code in name.split(".") if code and code not in COMMON]


def problems(found: dict[str, Any]) -> str:
    statuses: dict[str, set[int]] = {}
    for answer in found["components"]["responses"].values():
        for code, example in answer["content"]["application/problem+json"]["examples"].items():
            statuses.setdefault(code, set()).add(example["value"]["status"])
    rows = [(f"`{code}`", ", ".join(map(str, sorted(statuses[code]))), ABOUT[code]) for code in sorted(statuses)]
    common = ", ".join(f"`{code}`" for code in sorted(COMMON))
    table = docs_api.table(("code", "status", ""), rows)
    return f"Not repeated above, because most routes have them: {common}.\n\n{table}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
