"""The rules every store obeys, as tests: one module for each part of a job's life."""

import pytest

_MODULES = (
    "beat bench claim duties enqueue fence holding invariants lifecycle machine moves reading reclaim retention settle "
    "stuck"
)

# Before any of them is imported, so that an assert that fails shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.split()))
