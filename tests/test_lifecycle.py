import re
from pathlib import Path

from mulligan.lifecycle import EVENT_TYPES, FINAL, JOB_EVENTS, LIVE, TABLE, VERBS, Move, State, diagram, possible_verbs

ARCHITECTURE = Path(__file__).parent.parent / "docs" / "architecture.md"


def test_every_state_is_either_live_or_final() -> None:
    assert {*LIVE, *FINAL} == set(State)
    assert not {*LIVE} & {*FINAL}


def test_only_a_person_brings_back_a_job_that_is_over() -> None:
    revived = {move for (move, source) in TABLE if source in FINAL}
    assert revived == {Move.MANUAL_RETRY, Move.RUN_NOW}


def test_only_promotion_and_a_release_lead_to_the_queue() -> None:
    assert {move for (move, _), step in TABLE.items() if step.target is State.QUEUED} == {Move.PROMOTE, Move.RELEASE}


def test_a_succeeded_job_can_never_change() -> None:
    assert not [move for (move, source) in TABLE if source is State.SUCCEEDED]


def test_every_state_can_be_reached_and_every_live_one_left() -> None:
    assert {step.target for step in TABLE.values()} == set(State)
    assert {source for _, source in TABLE} >= set(LIVE)


def test_events_are_in_the_past_tense_and_belong_to_jobs() -> None:
    assert all(re.fullmatch(r"job\.[a-z_]+ed", event) for event in JOB_EVENTS), JOB_EVENTS


def test_events_about_no_job_are_in_the_past_tense_too() -> None:
    others = set(EVENT_TYPES) - set(JOB_EVENTS)
    assert all(re.fullmatch(r"[a-z]+\.([a-z_]+ed|done)", event) for event in others), others


def test_the_verbs_of_a_state_are_those_of_the_table() -> None:
    assert possible_verbs(State.RUNNING) == ("cancel",)
    assert possible_verbs(State.SUCCEEDED) == ()
    assert set(possible_verbs(State.WAITING)) == set(VERBS.values())


def test_the_diagram_in_the_docs_is_the_table() -> None:
    assert diagram() in ARCHITECTURE.read_text("utf-8")
