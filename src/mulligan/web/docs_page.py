"""The API as a page for people, rendered from its OpenAPI document. Plain HTML: no script, nothing from elsewhere."""

import json
import re
from collections.abc import Iterable, Mapping
from html import escape

from mulligan.records.document import Document

_CODE = re.compile(r"`([^`]+)`")
_FIRST_CALL = """curl "$SERVER{base}/api/v1/jobs?state=failed" -H "Authorization: Bearer $KEY\""""


def render(document: Document) -> str:
    info = document["info"]
    groups: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            (group,) = operation["tags"]
            groups[group].append(_operation(path, method.upper(), operation, document["components"]["responses"]))
    body = "".join(_section(name, "".join(each)) for name, each in groups.items())
    contents = _list(_link(_anchor(name), name) for name in (*groups, "Schemas"))
    schemas = "".join(_schema(name, each) for name, each in document["components"]["schemas"].items())
    base = document["servers"][0]["url"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{escape(info["title"])} API</title><link rel="stylesheet" href="docs.css"></head><body>'
        f"<header><h1>{escape(info['title'])} API <small>{escape(info['version'])}</small></h1>"
        f"<p>{_prose(info['description'])}</p>"
        f'<p>Base URL: <code>{escape(base)}</code>. For programs: <a href="openapi.json">openapi.json</a></p>'
        f"<pre><code>{escape(_FIRST_CALL.format(base=base.rstrip('/')))}</code></pre></header>"
        f'<nav aria-label="Contents">{contents}</nav><main>{body}'
        f"{_section('Schemas', schemas)}</main></body></html>"
    )


def _section(name: str, body: str) -> str:
    return f'<section><h2 id="{escape(_anchor(name))}">{escape(name)}</h2>{body}</section>'


def _operation(path: str, method: str, operation: Document, shared: Mapping[str, Document]) -> str:
    parts = [f"<p>{_prose(operation['description'])}</p>"]
    if parameters := operation["parameters"]:
        rows = ((each["name"], each["in"], _type(each["schema"]), _value(each), _about(each)) for each in parameters)
        parts.append(_table(("Parameter", "In", "Type", "Example", ""), rows))
    if body := operation.get("requestBody"):
        parts.append(f"<h4>Body</h4>{_content(body['content'])}")
    for status, answer in operation["responses"].items():
        named = answer.get("$ref", "").rpartition("/")[2]
        parts.append(_answer(status, shared[named] if named else answer))
    name = escape(operation["operationId"])
    return (
        f'<details class="operation" id="{name}"><summary><span class="method {method.lower()}">{method}</span> '
        f'<code>{escape(path)}</code> <span class="summary">{_prose(operation["summary"])}</span></summary>'
        f"{''.join(parts)}</details>"
    )


def _answer(status: str, answer: Document) -> str:
    codes = [line.removeprefix("- ") for line in answer["description"].splitlines()]
    if not status.startswith("2"):
        return f"<h4>{status}</h4>{_list(_prose(code) for code in codes)}"
    return f"<h4>{status}</h4>{_content(answer.get('content', {}))}"


def _content(content: Mapping[str, Document]) -> str:
    return "".join(_media(kind, each) for kind, each in content.items())


def _media(kind: str, media: Document) -> str:
    shown = f"<p><code>{escape(kind)}</code> {_type(media['schema'])}</p>"
    if "example" in media:
        given = media["example"]
        text = given if isinstance(given, str) else json.dumps(given, indent=2, ensure_ascii=False)
        shown += f"<pre><code>{escape(text)}</code></pre>"
    return shown


def _schema(name: str, schema: Document) -> str:
    required = schema.get("required", ())
    rows = (
        (field, _type(part), ("required. " if field in required else "") + _prose(part.get("description", "")))
        for field, part in schema.get("properties", {}).items()
    )
    values = f"<p>{_type(schema)}</p>" if "enum" in schema else ""
    about = f"<p>{_prose(schema.get('description', ''))}</p>" if schema.get("description") else ""
    return (
        f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>{about}{values}'
        f"{_table(('Field', 'Type', ''), rows) if 'properties' in schema else ''}</details>"
    )


def _type(schema: Document) -> str:
    """The type in a few words, with links to named schemas."""
    match schema:
        case {"$ref": str(target)}:
            name = target.rpartition("/")[2]
            return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'
        case {"anyOf": [*parts]} | {"oneOf": [*parts]}:
            return " or ".join(_type(part) for part in parts)
        case {"allOf": [first, *_], "title": str(title)}:
            return f"<code>{escape(title)}</code> ({_type(first)})"
        case {"enum": [*values]}:
            return " ".join(f"<code>{escape(str(value))}</code>" for value in values)
        case {"type": "array"}:
            return f"list of {_type(schema.get('items', {}))}"
        case {"type": str(kind)}:
            return escape(str(schema.get("format", kind))) + _bounds(schema)
    return "any"


def _bounds(schema: Document) -> str:
    """`, 1 to 1,000`."""
    least, most = schema.get("minimum"), schema.get("maximum")
    return f", {least:,} to {most:,}" if least is not None and most is not None else ""


def _value(parameter: Document) -> str:
    given = parameter["example"]
    shown = given if isinstance(given, str) else json.dumps(given[0] if isinstance(given, list) else given)
    return f"<code>{escape(shown.strip(chr(34)))}</code>"


def _about(parameter: Document) -> str:
    required = "required. " if parameter["required"] else ""
    default = parameter["schema"].get("default")
    given = f" Default: <code>{escape(json.dumps(default))}</code>" if default is not None else ""
    return f"{required}{_prose(parameter.get('description', ''))}{given}"


def _table(headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr><td><code>{escape(first)}</code></td>{_cells(rest)}</tr>" for first, *rest in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _anchor(group: str) -> str:
    """An id has no spaces."""
    return f"group-{group.lower().replace(' ', '-')}"


def _link(target: str, text: str) -> str:
    return f'<a href="#{escape(target)}">{escape(text)}</a>'


def _prose(text: str) -> str:
    return "<br>".join(_CODE.sub(r"<code>\1</code>", escape(line)) for line in text.splitlines() if line)
