"""How many modules a reader must open to follow one failing job."""

from pathlib import Path

from modules_of_a_failure import modules_of_a_failure

MOST_OF_THE_STORE = 18
MOST_BESIDE_THE_STORE = 31


def test_a_failing_job_goes_through_few_modules(tmp_path: Path) -> None:
    found = modules_of_a_failure(f"sqlite:///{tmp_path}/jobs.db")
    assert "failure.decide" in found and "store.sqlite.settle" in found
    of_the_store = [name for name in found if name.startswith("store.")]
    assert len(of_the_store) <= MOST_OF_THE_STORE, of_the_store
    assert len(found) - len(of_the_store) <= MOST_BESIDE_THE_STORE, found
