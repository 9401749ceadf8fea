"""Example values for JSON schemas: every field has one, and the same schema has the same example each time."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

# Where the name of a field is no good example of its values.
NAMED: dict[str, Any] = {
    "id": "019a9a52-5c00-7000-8000-000000000001",
    "job": "019a9a52-5c00-7000-8000-000000000001",
    "job_id": "019a9a52-5c00-7000-8000-000000000001",
    "ids": ["019a9a52-5c00-7000-8000-000000000001"],
    "batch": "019a9a52-5c00-7000-8000-000000000002",
    "batch_id": "019a9a52-5c00-7000-8000-000000000002",
    "redrive_id": "019a9a52-5c00-7000-8000-000000000003",
    "cursor": "019a9a52-5c00-7000-8000-000000000001",
    "what": "job",
    "name": "import",
    "key_id": "k7Qm2xVd",
    "types": "job.failed",
    "type": "job.failed",
    "tag": "eu",
    "version": "1.8.3",
    "worker": "host-1/4711",
    "group": "5f1d7a84",
    "on_settled": "report",
    "last_code": "TIMEOUT",
    "part": "5c0000",
    "kind": "convert",
    "owner": "acme",
    "queue": "default",
    "service": "gateway",
    "state": "failed",
    "actor": "ann",
    "reason": "the gateway is fixed",
    "code": "TIMEOUT",
    "error_code": "TIMEOUT",
    "error_class": "retryable",
    "arguments": {"path": "in.pdf"},
    "result": {"pages": 3},
    "priority": 0,
    "dry_run": True,
}
# Names in a path, by the part of the path before them.
PLACES = {"services": "gateway", "schedules": "nightly", "duties": "prune", "projections": "statistics"}
# Answers that are no JSON document, by media type.
TEXTS = {
    "application/x-ndjson": '{"id":"019a9a52-5c00-7000-8000-000000000001","kind":"convert","state":"failed"}\n',
    "text/plain": (
        "# HELP mulligan_jobs_active Jobs that are running.\n"
        "# TYPE mulligan_jobs_active gauge\n"
        "mulligan_jobs_active 7\n"
    ),
    "text/csv": "id,kind,state\r\n019a9a52-5c00-7000-8000-000000000001,convert,failed\r\n",
}
MOMENT = "2026-03-04T12:00:00+00:00"


def example(schema: Schema, components: Mapping[str, Schema], name: str = "") -> Any:
    """A value that fits the schema. `name` is the name of its field."""
    if target := schema.get("$ref"):
        return example(components[target.rpartition("/")[2]], components, name)
    if examples := schema.get("examples"):
        return examples[0]
    if "enum" in schema:
        return NAMED[name] if NAMED.get(name) in schema["enum"] else schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            parts = [part for part in schema[several] if part.get("type") != "null"]
            return example(parts[0], components, name)
    if "allOf" in schema:
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged |= example(part, components, name)
        return merged
    return _of_type(schema, components, name)


def _of_type(schema: Schema, components: Mapping[str, Schema], name: str) -> Any:
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {field: example(part, components, field) for field, part in schema["properties"].items()}
        case "object":
            more = schema.get("additionalProperties")
            return NAMED.get(name, {"name": example(more, components)} if more else {})
        case "array":
            return NAMED[name] if name == "ids" else [example(schema.get("items", {}), components, name)]
        case "string":
            known = NAMED.get(name)
            return MOMENT if schema.get("format") == "date-time" else known if isinstance(known, str) else name
        case "integer":
            return max(3, schema.get("minimum", 3))
        case "number":
            return max(0.5, schema.get("exclusiveMinimum", 0) * 2)
        case "boolean":
            return NAMED.get(name, False)
        case "null":
            return None
    return NAMED.get(name, "value")
