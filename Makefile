# kubectl runs: everything a newcomer types. `make help` explains each target.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench control-plane crds docs clean venv

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: venv ## a story in one minute on a fresh sandbox: no cluster needed
	@$(BIN)/python -m kubectl_runs.demo

test: venv control-plane lint ## lint, then the whole suite, also against a real API server
	$(BIN)/python -m $(if $(PYTEST_ARGS),pytest $(PYTEST_ARGS),tests.suite)

lint: venv ## ruff, mypy --strict, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: venv control-plane ## benchmarks as ratios: a table, and JSON in build/bench.json (ONLY=plan,submit)
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

control-plane: venv ## build etcd, kube-apiserver, KWOK into a cache outside the clone (once; 5 minutes)
	@$(BIN)/python -m tests.controlplane.binaries >/dev/null

crds: venv ## generate crds/*.yaml from the pydantic models
	$(BIN)/python -m kubectl_runs.wire.crds

docs: venv ## generate docs/cli from the commands, and the index of docs/decisions
	$(BIN)/python -m docs.generate

clean: ## remove the virtual environment and what builds made; the control plane's cache stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(VENV)/.made

# Everything comes from hash-pinned requirements; the package itself is then installed without looking further.
$(VENV)/.made: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, $$($(PYTHON) --version) was found" >&2; \
	    echo >&2; echo "hint: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo "making $(VENV) from requirements/dev.txt ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q kubectl_runs planner
	@touch $@
