"""The API works below any path: alone, behind a proxy, and mounted in other applications."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import UserSettingsHolder, global_settings
from django.conf import settings as django_settings
from django.utils.functional import empty
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from world import World

KEY = {"Authorization": "Bearer admin"}


def alone(api: Any) -> Any:
    return api


def in_starlette(api: Any) -> Any:
    return Starlette(routes=[Mount("/ops", api)])


def nested(api: Any) -> Any:
    return Starlette(routes=[Mount("/a", Starlette(routes=[Mount("/b", api)]))])


def below_a_parameter(api: Any) -> Any:
    return Starlette(routes=[Mount("/{tenant}/ops", api)])


def in_fastapi(api: Any) -> Any:
    found = FastAPI()
    found.mount("/ops", api)
    return found


def in_django(api: Any) -> Any:
    from django.core.asgi import get_asgi_application

    django = get_asgi_application()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/ops/"):
            await api({**scope, "root_path": "/ops"}, receive, send)
        else:
            await django(scope, receive, send)

    return application


urlpatterns: list[Any] = []


@pytest.fixture
def _django_settings() -> Iterator[None]:
    """Settings of this test alone: `configure()` works once in a process, and other tests need it."""
    others = vars(django_settings).get("_wrapped", empty)
    holder = UserSettingsHolder(global_settings)
    holder.ROOT_URLCONF, holder.ALLOWED_HOSTS = __name__, ["*"]
    django_settings._wrapped = holder
    yield
    django_settings._wrapped = others


MOUNTED: dict[str, tuple[Any, str]] = {
    "alone": (alone, ""),
    "in Starlette": (in_starlette, "/ops"),
    "twice": (nested, "/a/b"),
    "below a parameter": (below_a_parameter, "/acme/ops"),
    "in FastAPI": (in_fastapi, "/ops"),
    "in Django": (in_django, "/ops"),
}


@pytest.mark.usefixtures("_django_settings")
@pytest.mark.parametrize("name", MOUNTED)
def test_it_works_below_any_path(sqlite_world: World, name: str) -> None:
    mount, root = MOUNTED[name]
    client = TestClient(mount(sqlite_world.asgi), headers=KEY)
    job = client.post(f"{root}/api/v1/jobs", json={"kind": "convert", "arguments": {"path": "a"}}).json()
    assert client.get(f"{root}/api/v1/jobs/{job['id']}").json()["id"] == job["id"]
    assert client.get(f"{root}/api/v1/services/site:a/b").json()["name"] == "site:a/b"
    assert client.get(f"{root}/healthz").json() == {"status": "ok"}
    assert client.get(f"{root}/openapi.json").json()["servers"] == [{"url": root or "/"}]
    assert f"<code>{root or '/'}</code>" in client.get(f"{root}/docs").text
    assert client.get(f"{root}/docs.css").status_code == 200
    missing = client.get(f"{root}/api/v1/nothing")
    assert missing.status_code == 404 and missing.json()["code"] == "NOT_FOUND"


def test_it_works_behind_a_proxy_that_strips_its_prefix(sqlite_world: World) -> None:
    """As `uvicorn --root-path /ops` passes it on: the prefix is in the path again."""
    client = TestClient(sqlite_world.asgi, headers=KEY, root_path="/ops")
    assert client.get("/ops/api/v1/jobs").status_code == 200
    assert client.get("/ops/openapi.json").json()["servers"] == [{"url": "/ops"}]
