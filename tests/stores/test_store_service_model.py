"""Services after any steps: the promises of breakers, permits and budgets hold after each step."""

from conformance.service_machine import service_machine
from mulligan.store.sqlite import SqliteStore

TestServices = service_machine(
    lambda now, services, _: SqliteStore("sqlite:///:memory:", now=now, threaded=False, services=services)
)
