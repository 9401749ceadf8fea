"""Limits held by many processes on one SQLite file, each with a book of its own."""

from pathlib import Path

from test_store_processes import tried


def test_processes_together_never_run_more_than_the_limits_allow(tmp_path: Path) -> None:
    """Each counts what runs while it holds its own jobs: whatever the moment, no more than the limit."""
    answers, left = tried(
        """
        from mulligan.limit import LimitBook

        BOOK = LimitBook(kinds={"send": 3}, owners={"*": 2})

        def work(place):
            store = SqliteStore(URL)
            # One of them knows nothing of the limits.
            if place:
                store.limit_by(lambda: BOOK)
            most, done = 0, 0
            for number in range(1, 2_000):
                leases = claim(store, f"w{place}", number, limit=2)
                running = store.jobs(JobFilter(state="running"), limit=100).jobs
                owners = [job.owner for job in running]
                most = max([most, len(running), *(owners.count(owner) + 1 for owner in owners)])
                for lease in leases:
                    store.settle([Outcome(lease, Succeed("1"))])
                done += len(leases)
                if not leases and not store.busy(["send"]):
                    break
            store.close()
            return [most, done]

        first = SqliteStore(URL)
        first.limit_by(lambda: BOOK)
        claim(first, "first", 1)
        first.enqueue([new(f"{n:03}", owner=f"o{n % 4}") for n in range(120)])
        first.close()
        answers = processes(4, work)
        store = SqliteStore(URL)
        tell([answers, store.counts()])
        store.close()
        """,
        tmp_path / "jobs.db",
    )
    assert [answer for answer in answers if "error" in answer] == []
    assert sum(done for _, done in answers) == 120
    assert max(most for most, _ in answers) <= 3
    assert left == {"send": {"succeeded": 120}}
