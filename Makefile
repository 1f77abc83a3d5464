# Everything that CI runs, a newcomer runs with the same words. `make` alone prints them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-wide soak lint fmt tidy bench bench-broker bench-spark bench-capture bench-views bench-freshness bench-events bench-processing bench-nexmark bench-edges bench-schemas docs clean

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
# What the demo is made of; `make test` and all else bring the rest.
DEMO := spark,warehouse,search,redis,postgres,console
COMPILED := $(VENV)/.compiled
COLLECTED := $(VENV)/.collected
NATIVE := $(VENV)/.native
ARGS ?=
# Test files run side by side, as much of their time is waiting; tests/spreading.py says how.
WORKERS ?= 4

# A shell that forbids bytecode would make every start of the command compile it all again.
unexport PYTHONDONTWRITEBYTECODE

# Two rounds: what answers quickly, then what needs servers, crashes or seeds. A folder that is not named
# here belongs to the second, and of that tests/breadth.py leaves the most to `make test-wide`.
FOLDERS := $(patsubst tests/%/,%,$(filter-out tests/__pycache__/,$(wildcard tests/*/)))
QUICK := $(filter $(FOLDERS),record log broker client browse cli installs testing tools)
SLOW := $(filter-out $(QUICK),$(FOLDERS))

# In a new clone every worker would compile every test for itself; so one does it before them, while the
# class archive is made. Whether it can is for the rounds to say.
define prepare
	$(BIN)/python -m headwater.pipelines.class_archive & \
	if [ ! -e $(COLLECTED) ]; then \
		$(BIN)/python -m pytest -q --collect-only $(addprefix tests/,$(QUICK) $(SLOW)) >/dev/null 2>&1; touch $(COLLECTED); \
	fi; \
	wait;
endef

# $(call round,number,folders,options): run them, and remember whether one failed. Where less than all cores were
# busy, more workers would be quicker; where all were, only less work is. It is the whole machine that is
# looked at: a Java that ends after its worker is in nobody's account.
TICKS := awk '/^cpu / {print $$2 + $$3 + $$4 + $$7 + $$8}' /proc/stat 2>/dev/null || echo 0
define round
	printf '\n── round %s: %s  (%d s so far)\n' '$(1)' '$(2)' $$((SECONDS - begin)); \
	round=$$SECONDS; ticks=$$($(TICKS)); \
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope $(3) $(addprefix tests/,$(2)) || failed="$$failed $(1)"; \
	took=$$((SECONDS - round + 1)); \
	printf '   round %s: %d s, %d%% of one core busy, of %d cores, with %d workers\n' \
		'$(1)' $$took $$((($$($(TICKS)) - ticks) / took)) $$(nproc) $(WORKERS);
endef

# $(call step,what is done,command): one line, with the seconds it took; output only on failure.
define step
	@printf '  %-52s' '$(1)'; begin=$$SECONDS; \
	if output=$$($(2) 2>&1); then printf '%4d s\n' $$((SECONDS - begin)); \
	else printf ' failed\n%s\n' "$$output" >&2; exit 1; fi
endef

help: ## Print this list
	@echo 'headwater: make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(TOOLS) $(COMPILED) $(NATIVE) ## Make .venv with the package and all tools, where missing or out of date
	@:

$(READY): pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'headwater needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo '$(PYTHON) cannot make virtual environments: install its venv package (Debian: apt install python3-venv)' >&2; exit 1; }
	@echo 'Setting up $(VENV) with $(shell $(PYTHON) --version 2>/dev/null)'
	$(call step,making the virtual environment,{ $(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV); })
	@echo '  installing headwater and what the demo needs'
	@$(BIN)/python tools/install.py $(DEMO)
	@touch $@

$(TOOLS): $(READY)
	@echo '  installing the other parts, and the tools for tests and checks'
	@$(BIN)/python tools/install.py dev
	@touch $@

$(COMPILED): $(READY) $(shell find src -name '*.py' 2>/dev/null)
	@$(BIN)/python -m compileall -q src && touch $@

# Where there is a C compiler; elsewhere the same files run as they are.
$(NATIVE): $(TOOLS) tools/compile.py $(wildcard src/headwater/record/*.py)
	$(call step,compiling the checks of records where that can be done,$(BIN)/python tools/compile.py)
	@touch $@

demo: $(READY) $(COMPILED) ## Run the main job from end to end and verify it (ARGS="--seconds=60")
	@$(BIN)/headwater demo $(ARGS)

# $(call verdict,what has passed)
define verdict
	if [ -n "$$failed" ]; then \
		printf '\nTests failed in round%s, after %d s in all: make test ARGS=FILE::NAME runs one of them alone\n' "$$failed" $$((SECONDS - begin)) >&2; \
		exit 1; \
	fi; \
	printf '\n%s passed in %d s\n' '$(1)' $$((SECONDS - begin))
endef

test: setup ## Run the tests that every change needs, quick ones first (one folder, whole: ARGS=tests/cli)
ifneq ($(strip $(ARGS)),)
	@$(BIN)/python -m pytest $(ARGS)
else
	@begin=$$SECONDS; failed=; \
	$(prepare) \
	$(call round,1 of 2,$(QUICK)) \
	$(call round,2 of 2,$(SLOW),-m 'not wide') \
	$(call verdict,All tests of make test)
endif

test-wide: setup ## Run what make test leaves out and CI runs too: more servers, stores, browsers, Spark, kills
	@begin=$$SECONDS; failed=; \
	$(prepare) \
	$(call round,wide,$(SLOW),-m wide) \
	$(call verdict,All wide tests)

soak: setup ## Run the tests with longer runs and more seeds
	@HEADWATER_SOAK=1 $(BIN)/python -m pytest -v $(or $(ARGS),$(addprefix tests/,$(QUICK) $(SLOW)))

lint: setup ## Check style, types, the direction of imports, and what may only get less
	@$(BIN)/ruff check --output-format=concise .
	@$(BIN)/ruff format --check --quiet . || { echo 'make fmt formats these' >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tools.tidy

tidy: setup ## Write down the numbers that `make lint` lets no change raise (ARGS=--sums prints them)
	@$(BIN)/python -m tools.tidy $(or $(ARGS),--write)

fmt: setup ## Format the code and mend what can be mended
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

bench: bench-broker bench-spark bench-capture bench-views bench-freshness bench-events bench-processing bench-edges bench-schemas ## Run all benchmarks, and write docs/figures.md from them
	@$(BIN)/python -m bench.figures

bench-broker: setup ## Compare the broker with Apache Kafka in one run (ARGS="--help")
	@$(BIN)/python -m bench.broker $(ARGS)

bench-spark: setup ## Compare the Spark source with Spark's Kafka connector in one run (ARGS="--help")
	@$(BIN)/python -m bench.spark $(ARGS)

bench-capture: setup ## Compare capture with Debezium on one server and one broker (ARGS="--help")
	@$(BIN)/python -m bench.capture $(ARGS)

bench-views: setup ## Compare every target of a view with its library in a plain loop (ARGS="--help")
	@$(BIN)/python -m bench.views $(ARGS)

bench-freshness: setup ## Measure from the commit in a database until views show it (ARGS="--help")
	@$(BIN)/python -m bench.freshness $(ARGS)

bench-events: setup ## Compare the event sourcing library with eventsourcing in one run (ARGS="--help")
	@$(BIN)/python -m bench.events $(ARGS)

bench-processing: setup ## Compare windows, joins, patterns and search with what one would pick instead (ARGS="--help")
	@$(BIN)/python -m bench.processing $(ARGS)

bench-nexmark: setup ## Compare Nexmark's queries with Flink SQL and Spark's connector, after checking them (ARGS="--quick")
	@$(BIN)/python -m bench.nexmark $(ARGS)

bench-edges: setup ## Compare events in by HTTP and UDP, and changefeeds, with a plain FastAPI server (ARGS="--help")
	@$(BIN)/python -m bench.edges $(ARGS)

bench-schemas: setup ## Measure the schema registry, and serializers beside fastavro (ARGS="--help")
	@$(BIN)/python -m bench.schemas $(ARGS)

docs: setup ## Write the generated pages again, and build the site from docs/ into site/
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.publish

clean: ## Remove all that make has made: .venv, caches, build output
	@rm -rf $(VENV) build dist site htmlcov .coverage .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find src tests bench docs tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
