"""The OpenAPI document is complete, valid, and always the same."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from world import World, make_app

from mulligan import App
from mulligan.web.access.console import public_tasks
from mulligan.web.api import GROUPS
from mulligan.web.openapi import openapi
from mulligan.web.problems import ABOUT
from mulligan.web.route import collect

ROUTES = collect(GROUPS)
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def document(sqlite_world: World) -> dict[str, Any]:
    found: dict[str, Any] = sqlite_world.anonymous.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {operation["operationId"]: operation for path in document["paths"].values() for operation in path.values()}


def test_it_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    targets = set(re.findall(r'"\$ref": ?"#/([^"]+)"', json.dumps(document)))
    assert targets
    for target in targets:
        found: Any = document
        for part in target.split("/"):
            found = found[part]


def test_every_route_is_in_it_under_a_name_of_its_own(document: dict[str, Any]) -> None:
    assert len(operations(document)) == len(ROUTES)
    assert operations(document).keys() == {route.name for route in ROUTES}


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    checked = 0
    for operation in operations(document).values():
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [answer.get("content", {}) for answer in operation["responses"].values()]
        for content in contents:
            for media in content.values():
                if "example" in media:
                    schema = {**media["schema"], "components": document["components"]}
                    jsonschema_rs.Draft202012Validator(schema).validate(media["example"])
                    checked += 1
    assert checked > 80


def test_every_parameter_and_every_answer_has_an_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for parameter in operation["parameters"]:
            schema = {**parameter["schema"], "components": document["components"]}
            jsonschema_rs.Draft202012Validator(schema).validate(parameter["example"])
        for status, answer in operation["responses"].items():
            named = answer.get("$ref", "").rpartition("/")[2]
            content = (document["components"]["responses"][named] if named else answer).get("content", {})
            assert content or status == "204", (name, status)
            assert all("example" in media or media["examples"] for media in content.values()), (name, status)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_an_operation_is_described(document: dict[str, Any], route: Any) -> None:
    operation = operations(document)[route.name]
    assert operation["summary"] and operation["tags"] == [route.group]
    assert {each["name"] for each in operation["parameters"] if each["in"] == "path"} == set(route.parameters)
    if route.scope is None:
        assert operation["security"] == []
    else:
        optional = [{}] if route.without_key else []
        assert operation["security"] == [{"key": [str(route.scope)]}, *optional]
        assert {"401", "403", "429", "503"} <= operation["responses"].keys()
    if route.is_change and route.scope is not None:
        assert "Idempotency-Key" in {each["name"] for each in operation["parameters"]}


def test_every_problem_has_its_code_and_what_it_means(document: dict[str, Any]) -> None:
    for answer in document["components"]["responses"].values():
        for code, example in answer["content"]["application/problem+json"]["examples"].items():
            assert ABOUT[code] in answer["description"] and example["value"]["code"] == code


def test_a_public_task_has_the_schema_of_its_arguments(document: dict[str, Any]) -> None:
    body = operations(document)["enqueue"]["requestBody"]["content"]["application/json"]["schema"]
    calls = {call["title"]: call["allOf"][1] for call in body["oneOf"]}
    assert calls.keys() == {"convert", "reject", "count", "guarded"}
    arguments = calls["convert"]["properties"]["arguments"]
    assert arguments["required"] == ["path"]
    assert arguments["properties"]["path"] == {"type": "string", "format": "path"}
    assert arguments["properties"]["pages"] == {"type": "integer"}
    assert calls["convert"]["required"] == ["kind", "arguments"] and calls["reject"]["required"] == ["kind"]
    assert document["components"]["schemas"]["reject.Page"]["properties"]["number"] == {"type": "integer"}


def test_a_field_has_the_text_that_is_below_it_in_the_code(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["Job"]["properties"]["error_message"]["description"] == "The line for users."
    assert schemas["Purged"]["properties"]["dry_run"]["description"] == "Only count them."


def test_an_app_without_public_tasks_has_one_too() -> None:
    found = openapi(ROUTES, public_tasks(App("sqlite:///:memory:")))
    body = operations(found)["enqueue"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Enqueue"}


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "import json\nfrom world import make_app\nfrom test_openapi import ROUTES, openapi, public_tasks\n"
        "print(json.dumps(openapi(ROUTES, public_tasks(make_app('sqlite:///:memory:')))))"
    )
    paths = os.pathsep.join([str(HERE), *sys.path])
    here = json.dumps(openapi(ROUTES, public_tasks(make_app("sqlite:///:memory:"))))
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == here
