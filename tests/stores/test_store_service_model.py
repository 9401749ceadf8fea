"""Any life of services: what is promised of breakers, permits and budgets holds after each step."""

from mulligan.store.sqlite import SqliteStore
from mulligan.testing.stores.service_machine import service_machine

TestServices = service_machine(
    lambda now, services, _: SqliteStore("sqlite:///:memory:", now=now, threaded=False, services=services)
)
