"""Run a state machine as tests: the same examples in every run, and a few fresh ones of a new seed each time."""

import os
from random import SystemRandom
from typing import Any, ClassVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES = "MULLIGAN_MODEL_EXAMPLES"
SEED = "MULLIGAN_MODEL_SEED"
FRESH = 3
STEPS = 50


class OneRuleMachine(RuleBasedStateMachine):
    """A machine whose only rule chooses the step.

    Hypothesis would draw first which rules to use, and draws constants of all loaded modules into that: the same seed
    would mean other steps where other tests are loaded.
    """

    def __init__(self) -> None:
        super().__init__()
        (only,) = self.rules
        drawn: Any = st.tuples(st.just(only), st.fixed_dictionaries(only.arguments))
        self._rules_strategy = drawn


class MachineTests:
    """The settings are read when the tests are collected. No test id contains the seed: parallel test processes draw
    seeds of their own, and have to collect the same ids."""

    machine: ClassVar[type[RuleBasedStateMachine]]
    examples: ClassVar[int]
    fresh: ClassVar[int] = int(os.environ.get(EXAMPLES) or FRESH)
    seed: ClassVar[int] = int(os.environ.get(SEED) or SystemRandom().getrandbits(32))

    def test_the_same_examples_in_every_run(self) -> None:
        _run(self.machine, max_examples=self.examples, derandomize=True)

    def test_fresh_examples(self) -> None:
        try:
            # A subclass of its own: the seed must not reach the examples of every run.
            _run(seed(self.seed)(type(self.machine.__name__, (self.machine,), {})), max_examples=self.fresh)
        except BaseException as error:
            error.add_note(f"Repeat it with: {self._repetition()}")
            raise

    def _repetition(self) -> str:
        test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")
        return f"{SEED}={self.seed} {EXAMPLES}={self.fresh} pytest '{test}'"


def _run(machine: type[RuleBasedStateMachine], **chosen: Any) -> None:
    # Without a database of earlier failures: only the seed decides what is drawn.
    wanted = settings(
        **chosen, database=None, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine, settings=wanted)
