# Two commands matter: `make run` and `make test`. Everything else serves them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SCENARIO ?= fixtures/sessions/first-day.yaml

.PHONY: run test lint check conformance bench torture browser clean prerequisites

run: $(VENV)/.run
	@$(BIN)/pi-project-memory simulate $(SCENARIO)

test: $(VENV)/.pi browser
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/conformance.py

conformance: $(VENV)/.dev
	$(BIN)/python tests/conformance.py --write

bench: $(VENV)/.pi
	PYTHONPATH=tests $(BIN)/python tests/bench/start.py
	PYTHONPATH=tests $(BIN)/python tests/bench/log_cost.py

# Locks under fire: many processes killed at random instants, for as long as you like.
torture: $(VENV)/.dev
	TORTURE_SECONDS=$${TORTURE_SECONDS:-600} $(BIN)/python -m pytest tests/faults

check: lint test

# The environment grows in three steps, each made once and again when its inputs change.
$(VENV)/.run: pyproject.toml constraints.txt | prerequisites
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.pi: $(VENV)/.dev tests/pi/package.json
	$(BIN)/python tests/pi/install_pi.py
	touch $@

prerequisites:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is missing: install it, for example with 'apt-get install python3 python3-venv'" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Python 3.11 or later is needed; name one with 'make PYTHON=/path/to/python3.11'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install them, for example with 'apt-get install python3-venv'" >&2; exit 1; }
	@command -v git >/dev/null || { echo "git is missing: install it, for example with 'apt-get install git'" >&2; exit 1; }

browser:
	@command -v chromium >/dev/null || { echo "Chromium is missing, in which the tests look at the trace page: install it, for example with 'apt-get install chromium'" >&2; exit 1; }

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
