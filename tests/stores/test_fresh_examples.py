"""Fresh examples: each run draws others, and a failure says how to repeat its own."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from conformance.examples import EXAMPLES, SEED, MachineTests, OneRuleMachine

_drawn: list[int] = []


class Drawing(OneRuleMachine):
    @rule(number=st.integers(0, 99))
    def step(self, number: int) -> None:
        _drawn.append(number)


class Failing(OneRuleMachine):
    @rule()
    def step(self) -> None:
        raise AssertionError("they disagree")


def built(machine: type[OneRuleMachine], seed: int) -> MachineTests:
    tests = type("Tests", (MachineTests,), {"machine": machine, "examples": 2, "fresh": 2, "seed": seed})
    return tests()


def drawn_fresh(seed: int) -> list[int]:
    _drawn.clear()
    built(Drawing, seed).test_fresh_examples()
    return list(_drawn)


def drawn_in_every_run(seed: int) -> list[int]:
    _drawn.clear()
    built(Drawing, seed).test_the_same_examples_in_every_run()
    return list(_drawn)


def test_a_seed_repeats_its_examples_and_another_draws_others() -> None:
    assert drawn_fresh(1) == drawn_fresh(1) != drawn_fresh(2)


def test_no_seed_changes_the_examples_of_every_run() -> None:
    first = drawn_in_every_run(1)
    drawn_fresh(2)
    assert drawn_in_every_run(2) == first


def test_a_failure_says_how_to_repeat_it() -> None:
    with pytest.raises(AssertionError) as failure:
        built(Failing, 7).test_fresh_examples()
    (note,) = [note for note in failure.value.__notes__ if SEED in note]
    assert f"{SEED}=7 {EXAMPLES}=2 pytest '" in note
    assert "test_fresh_examples.py::test_a_failure_says_how_to_repeat_it'" in note
