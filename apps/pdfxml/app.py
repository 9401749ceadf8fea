"""The converter: its engine, its tasks, its policy and its storage."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import httpx2

from apps.pages.database import Database
from apps.pdfxml.codes import CODES, message_of
from apps.pdfxml.documents import Documents
from apps.pdfxml.gateway_call import GatewayCall, is_healthy
from apps.pdfxml.mapping_list import MappingList
from apps.pdfxml.retention import Retention
from apps.pdfxml.rules import RULES
from apps.pdfxml.settings import GATEWAY, Settings
from apps.pdfxml.storage import LocalStorage, Storage
from mulligan import App, FinalError, Job, NotAllowed, Owner, attempt

# The task ends the call itself; the engine's own limit is for what hangs elsewhere, such as a disk.
SPARE = timedelta(seconds=30)
# How long a record stays after its files were removed.
MEMORY = timedelta(days=30)


@dataclass(frozen=True)
class Converter:
    """Everything that pages, API and workers share."""

    app: App
    convert: Any
    settings: Settings
    storage: Storage
    database: Database
    documents: Documents
    retention: Retention
    mappings: MappingList


def create(settings: Settings, *, storage: Storage | None = None) -> Converter:
    """Build the converter. It connects when it is first used."""
    storage = storage or LocalStorage(settings.uploads, settings.results)
    app = App(
        settings.database_url,
        catalogue=CODES.values(),
        services=[settings.service(partial(is_healthy, settings.gateway_url))],
        owners=[Owner("*", max_live=settings.live_jobs)],
        lifespan=open_client,
        settings=_engine_settings(settings),
    )

    def source_exists(job: Job[Any]) -> None:
        if not storage.has_source(str(job.arguments.get("document"))):
            raise NotAllowed(message_of("EXPIRED", is_final=True), code="EXPIRED", status=410)

    @app.task(
        retry=settings.policy,
        rules=RULES,
        service=GATEWAY,
        timeout=settings.gateway_timeout + SPARE,
        isolate=False,
        can_retry=source_exists,
    )
    def convert(document: str, mapping: str) -> int:
        """Write the XML of a document, and return its size."""
        # An attempt that wrote the result, and died before that was recorded, need not be repeated.
        if storage.has_result(document):
            with storage.open_result(document) as result:
                return result.seek(0, os.SEEK_END)
        try:
            source = storage.open_source(document)
        except FileNotFoundError:
            raise FinalError(code="EXPIRED") from None
        call = GatewayCall(
            attempt().resources,
            settings.gateway_url,
            timeout=settings.gateway_timeout,
            largest=settings.largest_result,
        )
        with source:
            return storage.write_result(document, call.convert(source, mapping))

    database = Database(app.settings.database_url)
    documents = Documents(database.metadata)
    retention = Retention(app, database, documents, storage, age=settings.retention, memory=MEMORY)

    @app.cron("*/10 * * * *")
    @app.task(timeout="30m", isolate=False)
    def expire() -> int:
        """Remove the files of conversions that ended long ago."""
        return retention.run(app.now())

    mappings = MappingList(settings.gateway_url)
    return Converter(app, convert, settings, storage, database, documents, retention, mappings)


@contextmanager
def open_client(_app: App) -> Iterator[httpx2.Client]:
    """The HTTP client of a worker."""
    with httpx2.Client(follow_redirects=False, trust_env=False) as client:
        yield client


def _engine_settings(settings: Settings) -> dict[str, Any]:
    """What the engine is to do unless its own variables say otherwise."""
    kept = settings.retention + MEMORY
    wanted: dict[str, Any] = {"metrics_prefix": "", "retention_succeeded": kept, "retention_failed": kept}
    if settings.lease is not None:
        wanted["worker_lease_ttl"] = settings.lease
    if settings.concurrency is not None:
        wanted["worker_concurrency"] = settings.concurrency
    return wanted
