# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BENCH  := .venv-bench
ARGS   ?=

.PHONY: demo test bench soak check unit servers clean

demo: $(READY)
	@$(BIN)/mulligan demo $(ARGS)

test: check servers unit

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/pytest -q -n 2 --dist worksteal $(ARGS)

# The real servers the tests run against. Without root they are looked for, and what is missing is said.
servers:
	@sh tests/servers.sh

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mulligan needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Figures, side by side with others: minutes, not part of the tests.
bench: $(BENCH)/.ready
	@$(BENCH)/bin/python -m bench $(ARGS)

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[postgres]' pgqueuer asyncpg uvloop huey psutil
	@touch $@

# The chaos of the tests for as long as you like: `make soak KILLS=20000`. A seed that failed: MULLIGAN_SEED=….
KILLS ?= 5000
soak: $(READY) servers
	MULLIGAN_KILLS=$(KILLS) $(BIN)/pytest -q -s tests/chaos/test_chaos_sqlite.py tests/chaos/test_chaos_postgres.py $(ARGS)

clean:
	rm -rf $(VENV) $(BENCH) .mypy_cache .ruff_cache .pytest_cache .hypothesis
