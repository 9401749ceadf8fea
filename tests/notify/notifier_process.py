"""A process that tells of events, and kills itself where it is told to: before a commit, after it, or after sending.

python notifier_process.py URL SMTP_PORT PLACE
"""

import os
import signal
import sys
from datetime import timedelta
from typing import Any

from mulligan import App
from mulligan.notify import sending
from mulligan.notify.smtp_server import parse_smtp_url
from mulligan.settings import Settings
from mulligan.store.store import Store


def main() -> None:
    url, port, place = sys.argv[1:]
    smtp = parse_smtp_url(f"smtp://127.0.0.1:{port}?from=jobs@example.org&tls=off")
    # Its leases must end soon after its death.
    app = App(settings=Settings(database_url=url, smtp_url=smtp, worker_lease_ttl=timedelta(seconds=1)))
    _kill_at(place)
    with app:
        for _ in range(3):
            app.run_duty("notify")
            app.run_duty("digest")
            app.run_until_idle(timeout="60s")


def _kill_at(place: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    match place:
        case "before telling":
            original = Store.notify

            def notify(self: Store, step: Any) -> Any:
                die()
                return original(self, step)

            Store.notify = notify  # type: ignore[method-assign]
        case "after telling":
            told = Store.notify

            def tell(self: Store, step: Any) -> Any:
                done = told(self, step)
                if done is not None and done.deliveries:
                    die()
                return done

            Store.notify = tell  # type: ignore[method-assign]
        case "after closing":
            closed = Store.close_digest

            def close(self: Store, *args: Any, **options: Any) -> int:
                number_told = closed(self, *args, **options)
                if number_told:
                    die()
                return number_told

            Store.close_digest = close  # type: ignore[method-assign]
        case "before sending" | "before sending a digest":
            write = sending.Deliver._mail

            def mail(self: Any, delivery: Any, subscription: Any) -> Any:
                if place == "before sending" or delivery.is_digest:
                    die()
                return write(self, delivery, subscription)

            sending.Deliver._mail = mail  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
