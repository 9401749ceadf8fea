"""The verdict over one ordeal, with all that is needed to run it again."""

from chaos.books import Books
from chaos.evidence import Evidence, summary
from chaos.plan import KILLS, SEED
from chaos.recount import reached
from chaos.recovery import recoveries, told
from chaos.verify import complaints


def judged(evidence: Evidence) -> None:
    books = Books(evidence)
    found = recoveries(books)
    happened = reached(books)
    print(f"\nMULLIGAN_SEED={SEED} MULLIGAN_KILLS={KILLS}: {summary(evidence)}; {told(found)}; {happened}")
    wrong = complaints(evidence)
    wrong += [f"late: {recovery}" for recovery in found if recovery.seconds > recovery.allowed]
    assert not wrong, "\n".join([f"MULLIGAN_SEED={SEED}", *wrong, "; ".join(map(str, evidence.plan))])
    # It was an ordeal, not a walk.
    assert sum(life.killed is not None for life in evidence.lives) >= KILLS
    assert len(found) >= KILLS
    assert len(evidence.accepted) >= 5 * KILLS
    assert all(happened.values()), happened
