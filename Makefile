# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BENCH  := .venv-bench
ARGS   ?=
SOAK   := stores streams load interleavings model zones batches notify drill simulation api chaos apps
# What soak and bench run of all they could.
PARTS  ?=
WORLDS ?= 10000
# Twice the two cores: a third of the time a test waits for a lease, a process, a browser or a server.
PROCESSES ?= 4
# A seed, another one each time.
DRAW   := $(BIN)/python -c 'import random; print(random.SystemRandom().randrange(10**6, 10**9))'
CHECK_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mulligan needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
# Where it is set, each of a thousand programs that are started compiles everything again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-apps bench bench-report soak check unit docs pythons simulate found servers pictures apps-pictures apps-table clean pdfxml runs watermark screenshots-api

# Where nothing is installed yet, the demo gets a small environment of its own.
DEMO := $(if $(wildcard $(READY)),$(VENV),.venv-demo)
demo: $(DEMO)/.ready
	@$(DEMO)/bin/mulligan demo $(ARGS)

.venv-demo/.ready: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[web]'
	@touch $@

# The four applications, each with its pages and a worker: DATABASE_URL=postgresql://…, ARGS="--port 8080".
pdfxml runs watermark: $(READY) servers
	@$(BIN)/python -m apps.$@ $(ARGS)

screenshots-api: $(READY) servers
	@$(BIN)/python -m apps.screenshots $(ARGS)

test: check servers unit

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A test that hangs ends its process with the stack of every thread, and the others go on.
TIME_LIMIT := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

unit: $(READY)
	$(BIN)/pytest -q -n $(PROCESSES) --dist worksteal $(TIME_LIMIT) $(ARGS)

# The four applications alone, with real browsers, programs and killed processes.
test-apps: $(READY) servers
	$(BIN)/pytest -q -n $(PROCESSES) --dist worksteal tests/apps $(ARGS)

# Write the parts of the reference that are made from the code.
docs: export PYTHONPATH := src:tests/docs
docs: $(READY)
	$(BIN)/python tests/docs/docs_api.py
	$(BIN)/python tests/docs/docs_documents.py
	$(BIN)/python tests/docs/docs_http.py
	$(BIN)/python tests/docs/docs_tables.py
	$(BIN)/python tests/test_docs_rules.py

# The unit tests on every Python from 3.11 on that is found here: PYTHONS="3.12" ARGS="-k store".
pythons: servers
	@$(PYTHON) tests/pythons.py $(ARGS)

# Worlds by their seeds: SEEDS=0-59, or one of them told step by step: SEED=17 ARGS=--trace.
SEEDS ?= 0-59
simulate: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m simulator $(or $(SEED),$(SEEDS)) $(ARGS)

# The seeds that find each broken engine soonest, for test_simulation_finds.py: after the engine has changed.
found: $(READY)
	@PYTHONPATH=tests $(BIN)/python tests/simulator/test_simulation_finds.py

# Pictures of every page of the dashboard: ARGS="/tmp/pictures", and with --readme the three of the README.
pictures: $(READY)
	@PYTHONPATH=tests:tests/browser:tests/stores $(BIN)/python tests/browser/pictures.py $(ARGS)

# The pictures of the applications in docs/pictures/.
apps-pictures: export PYTHONPATH := .:tests:tests/browser:tests/stores:tests/notify
apps-pictures: $(READY) servers
	@folder=$$(mktemp -d); $(BIN)/python tests/apps/pdfxml/pdfxml_pictures.py $$folder --readme; rm -r $$folder
	@$(BIN)/python tests/apps/runs/runs_pictures.py
	@$(BIN)/python tests/apps/watermark/watermark_picture.py docs/pictures/watermark.png
	@$(BIN)/python tests/apps/screenshots/screenshots_pictures.py

# The table of requirements in apps/README.md, with the results of their tests.
apps-table: $(READY) servers
	@$(BIN)/python tests/apps/apps_requirements.py $(ARGS)

# The real servers the tests run against. Without root they are looked for, and what is missing is said.
servers:
	@sh tests/servers.sh

$(READY): pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# The long versions of what the tests run short: all of them, or PARTS="model zones". A part is a rule and a name in SOAK.
soak: $(patsubst %,soak-%,$(or $(PARTS),$(SOAK)))

# Every case of every rule of a store: through pgbouncer, without NOTIFY, and in memory.
soak-stores: export MULLIGAN_SOAK := 1
soak-stores: $(READY) servers
	$(BIN)/pytest -q -n 2 --dist worksteal tests/stores/test_store_postgres.py tests/stores/test_store_sqlite.py -k "TestEveryRule or TestPostgresThroughPgbouncer or TestMemory" $(ARGS)

# Three hundred readers of the event stream that do not read.
soak-streams: export MULLIGAN_SOAK := 1
soak-streams: $(READY)
	$(BIN)/pytest -q -s tests/web/test_web_stream_load.py $(ARGS)

# A body of 1 GiB, 100,000 headers, 500 clients that never end their head, a million ids.
soak-load: export MULLIGAN_SOAK := 1
soak-load: $(READY)
	$(BIN)/pytest -q -s tests/web/test_hostile_requests.py $(ARGS)

# Every order of six steps on one job, on each store.
soak-interleavings: export MULLIGAN_SOAK := 1
soak-interleavings: $(READY) servers
	$(BIN)/pytest -q -n 2 tests/stores/test_store_interleavings.py $(ARGS)

# As many random lives of a store, compared with the model step by step, of a new seed each time.
soak-model: export MULLIGAN_MODEL_EXAMPLES ?= 2000
soak-model: export MULLIGAN_MODEL_SEED := $(or $(MULLIGAN_MODEL_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
soak-model: $(READY) servers
	@echo "repeat with: make soak PARTS=model MULLIGAN_MODEL_SEED=$$MULLIGAN_MODEL_SEED MULLIGAN_MODEL_EXAMPLES=$$MULLIGAN_MODEL_EXAMPLES"
	$(BIN)/pytest -q -n 2 --dist worksteal tests/stores/test_store_model.py tests/stores/test_store_service_model.py tests/stores/test_store_postgres_model.py $(ARGS)

# Every change of the clocks in every time zone.
soak-zones: export MULLIGAN_ALL_ZONES := 1
soak-zones: $(READY)
	$(BIN)/pytest -q -n 2 tests/failure/test_windows.py tests/test_cron.py $(ARGS)

# As many worlds of one simulated hour, new ones each time; a seed that failed: make simulate SEED=17 ARGS=--trace.
soak-simulation: export MULLIGAN_DAYS ?= 40
soak-simulation: $(READY)
	@first=$$($(DRAW)); seeds=$${MULLIGAN_SEEDS:-$$first-$$((first + $(WORLDS) - 1))}; \
	echo "these worlds again: make soak PARTS=simulation MULLIGAN_SEEDS=$$seeds"; \
	MULLIGAN_SEEDS=$$seeds $(BIN)/pytest -q -n 2 tests/simulator/test_simulation.py tests/simulator/test_day_of_outage.py $(ARGS)

# Ten thousand requests that are made from the OpenAPI document, and many odd values in every place, on each store.
soak-api: export MULLIGAN_SOAK := 1
soak-api: export MULLIGAN_MODEL_SEED := $(or $(MULLIGAN_MODEL_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
soak-api: $(READY) servers
	@echo "repeat with: make soak PARTS=api MULLIGAN_MODEL_SEED=$$MULLIGAN_MODEL_SEED"
	$(BIN)/pytest -q -n 2 --dist worksteal tests/web/test_generated_requests.py tests/web/test_every_route.py tests/web/test_owners_apart.py $(ARGS)

# A batch of 50,000 members, settled by four worker processes, on each store.
soak-batches: export MULLIGAN_SOAK := 1
soak-batches: $(READY) servers
	$(BIN)/pytest -q tests/stores/test_store_batch_processes.py $(ARGS)

# Ten thousand like failures and a notifier that is killed at each place: at most three mails, each job named in one.
soak-notify: export MULLIGAN_SOAK := 1
soak-notify: $(READY) servers
	$(BIN)/pytest -q -s tests/notify/test_notifier_crashes.py $(ARGS)

# Outages that end anywhere in a cooldown, as many of each fault, of new seeds each time.
soak-drill: export MULLIGAN_DRILL_SEEDS ?= 3
soak-drill: $(READY)
	@seed=$${MULLIGAN_DRILL_SEED:-$$($(DRAW))}; \
	echo "these outages again: make soak PARTS=drill MULLIGAN_DRILL_SEED=$$seed MULLIGAN_DRILL_SEEDS=$$MULLIGAN_DRILL_SEEDS"; \
	MULLIGAN_DRILL_SEED=$$seed $(BIN)/pytest -q -n 2 tests/failure/test_service_drill.py tests/failure/test_engine_drill.py $(ARGS)

# Thousands of kills on each store, by a new plan each time.
soak-chaos: export MULLIGAN_KILLS ?= 5000
soak-chaos: $(READY) servers
	@seed=$${MULLIGAN_SEED:-$$($(DRAW))}; \
	echo "this plan again: make soak PARTS=chaos MULLIGAN_SEED=$$seed MULLIGAN_KILLS=$$MULLIGAN_KILLS"; \
	MULLIGAN_SEED=$$seed $(BIN)/pytest -q -s tests/chaos/test_chaos_sqlite.py tests/chaos/test_chaos_postgres.py $(ARGS)

# The load tests and the rarer faults of the four applications.
soak-apps: export MULLIGAN_SOAK := 1
soak-apps: $(READY) servers
	$(BIN)/pytest -q -s tests/apps $(ARGS)

soak-%:
	@echo "there is no part '$*' of the soak; there are: $(SOAK)" >&2; exit 2

# Figures, side by side with others, for docs/benchmarks.md: about two hours on a quiet machine, not part of the tests.
# Some of it: PARTS="drain latency" PEERS="pgqueuer" STORE=postgres ROUNDS=1 ARGS=--small.
ROUNDS ?= 3
PEERS  ?=
STORE  ?=
bench: $(BENCH)/.ready
	@$(BENCH)/bin/python -m bench --rounds $(ROUNDS) --parts "$(PARTS)" --peers "$(PEERS)" $(if $(STORE),--store $(STORE)) $(ARGS)

# docs/benchmarks.md again from results: RESULTS="bench-results/one.jsonl bench-results/two.jsonl".
bench-report: $(BENCH)/.ready
	@$(BENCH)/bin/python -m bench report $(RESULTS)

# The peers get environments of their own when they are first measured.
$(BENCH)/.ready: pyproject.toml constraints.txt bench/requirements/mulligan.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r bench/requirements/mulligan.txt -e '.[postgres,fast,web]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-demo .venv-3.* $(BENCH)* .mypy_cache .ruff_cache .pytest_cache .hypothesis
