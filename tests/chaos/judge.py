"""Checks the evidence of one run, and prints what is needed to repeat it."""

from chaos.evidence import Evidence, summary
from chaos.evidence_index import EvidenceIndex
from chaos.plan import KILLS, SEED
from chaos.recount import reached
from chaos.recovery import recoveries, told
from chaos.verify import complaints


def check_evidence(evidence: Evidence) -> None:
    index = EvidenceIndex(evidence)
    found = recoveries(index)
    happened = reached(index)
    print(f"\nMULLIGAN_SEED={SEED} MULLIGAN_KILLS={KILLS}: {summary(evidence)}; {told(found)}; {happened}")
    wrong = complaints(evidence)
    wrong += [f"late: {recovery}" for recovery in found if recovery.seconds > recovery.allowed]
    assert not wrong, "\n".join([f"MULLIGAN_SEED={SEED}", *wrong, "; ".join(map(str, evidence.plan))])
    # The faults were as many as planned.
    assert sum(life.killed is not None for life in evidence.lives) >= KILLS
    assert len(found) >= KILLS
    assert len(evidence.accepted) >= 5 * KILLS
    assert all(happened.values()), happened
