"""Chaos on PostgreSQL: kills and freezes, commits whose replies are cut, a server that stops and crashes."""

import threading
import time
from pathlib import Path

from postgres_server import PostgresServer

from chaos.chaos_run import ChaosRun
from chaos.judge import check_evidence
from chaos.plan import KILLS, SEED, Fault, planned
from chaos.proxy import Proxy


def test_nothing_is_lost_doubled_or_forgotten_on_postgres(tmp_path: Path, chaos_server: PostgresServer) -> None:
    direct = chaos_server.fresh_database("chaos")
    proxy = Proxy(chaos_server.port)
    restarts: list[threading.Thread] = []
    one_at_a_time = threading.Lock()

    def cut(fault: Fault) -> None:
        proxy.cut(**{"requests" if fault.number == 0 else "replies": 1})

    def restart(fault: Fault) -> None:
        # Beside the rest of the plan: workers are killed while the server is away, too.
        restarts.append(threading.Thread(target=_restart, args=(fault,)))
        restarts[-1].start()

    def _restart(fault: Fault) -> None:
        crash = fault.what == "crash"
        with one_at_a_time:
            chaos_server.stop(crash=crash)
            if crash:
                chaos_run.crashes.append(time.time())
            time.sleep(fault.seconds / 2)
            chaos_server.start()

    url = direct.replace(f":{chaos_server.port}/", f":{proxy.port}/") + "?sslmode=disable&gssencmode=disable"
    chaos_run = ChaosRun(tmp_path, url, direct=direct, strikes={"cut": cut, "crash": restart, "restart": restart})
    plan = planned(SEED, kills=KILLS, others={"cut": 0.4, "crash": 9.0, "restart": 20.0})
    try:
        evidence = chaos_run.run(plan)
    finally:
        for thread in restarts:
            thread.join()
        proxy.close()
    print(f"\n{dict(proxy.cuts)} cut")
    check_evidence(evidence)
    assert proxy.cuts["reply"] >= KILLS // 2
    assert len(evidence.crashes) == sum(fault.what == "crash" for fault in plan)
