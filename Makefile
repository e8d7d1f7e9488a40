# Every command of the project. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help install dev demo serve test prove busy coverage check docs format bench lock clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing MOSAICO into $(VENV)"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "installing the development tools"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.runtime ## create .venv from the locked requirements

dev: $(VENV)/.dev ## the same, with the tools of a developer

demo: install ## two benchmark runs from traces to an alert, on sample data
	@$(BIN)/python -m demo

serve: install ## API, worker and embedded database on http://127.0.0.1:8080
	@$(BIN)/mosaico serve

test: dev ## all tests, on an embedded Postgres of their own
	@$(BIN)/python -m pytest

prove: dev ## rates of verdicts and alerts in half an hour, then long campaigns: kills, bombs, full disks, fuzzing, properties
	@$(BIN)/python -m benchmarks.calibration
	@$(BIN)/python -m benchmarks.judges
	@$(BIN)/python -m benchmarks.run_variation
	@$(BIN)/python -m benchmarks.detection
	@$(BIN)/python -m pytest -rs -m 'prove or hypothesis' --hypothesis-profile=prove -n 0
	@$(BIN)/python -m pytest -rs -k 'full_disk or disk_that_fills_up' -n 0 tests/integration
	@$(BIN)/python -m benchmarks bombs

busy: dev ## kills and takeovers on a busy machine: tests/e2e beside 20 endless loops
	@$(BIN)/python -m pytest --busy-loops 20 -n 0 tests/e2e

coverage: dev ## tests with branch coverage
	@$(BIN)/python -m pytest --cov=mosaico --cov-report=term-missing:skip-covered

check: dev ## format, lint, types, imports, dependencies, links of the documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry --no-ansi .
	@$(BIN)/python -m properdocs build --strict --quiet

docs: dev ## the documentation as a site: build/docs/index.html
	@$(BIN)/python -m properdocs build --strict

format: dev ## rewrite the sources in the project format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: dev ## our code beside its peers, ratios printed
	@$(BIN)/python -m benchmarks

lock: ## resolve the requirements again (needs uv)
	uv pip compile pyproject.toml --extra harness --group build --universal --python-version 3.11 \
	  --generate-hashes --no-strip-extras --no-emit-index-url --no-annotate --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra harness --group build --group dev -c requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --no-annotate --no-header -q \
	  -o requirements-dev.lock

clean: ## remove the environment and caches, never data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist
