# Every command of the project. `make` alone lists them.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras \
  --no-emit-index-url --no-annotate --no-header -q
VERSION = $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Byte code of what is never imported takes 130 MB and half a minute. Python writes what it needs, where it may.
COMPILED := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
# `pipefail`: a failure of pip is a failure, although its output is filtered.
LOCKED := set -o pipefail; $(PIP) install $(COMPILED) --progress-bar off --require-hashes -r
# Of what pip prints: packages of a megabyte or more, and the last step, which is as long as the others.
PROGRESS := awk '/ MB\)/ {print "  " $$(NF - 2), $$(NF - 1) " MB)"; fflush()} \
  /^Installing/ {print "  unpacking"; fflush()}'

.DEFAULT_GOAL := help
.PHONY: help install dev demo serve test e2e prove busy coverage check docs format generate bench lock release image clean

help: ## list the commands
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.lock requirements-build.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing MOSAICO into $(VENV): $$(grep -c == requirements.lock) packages; these are the large ones"
	@$(LOCKED) requirements.lock | $(PROGRESS)
	@$(PIP) install --quiet --require-hashes --upgrade --target $(VENV)/build -r requirements-build.lock
	@PYTHONPATH=$(VENV)/build $(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@rm -r $(VENV)/build
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "installing the development tools"
	@$(LOCKED) requirements-dev.lock | $(PROGRESS)
	@touch $@

install: $(VENV)/.runtime ## create .venv from the locked requirements

dev: $(VENV)/.dev ## the same, with the tools of a developer

demo: install ## two benchmark runs from traces to an alert, on sample data
	@$(BIN)/python -m demo

serve: install ## API, worker and embedded database on http://127.0.0.1:8080
	@$(BIN)/mosaico serve

test: dev ## the tests of the code and of the service, on an embedded Postgres of their own
	@$(BIN)/python -m pytest --ignore tests/e2e --ignore tests/browser

e2e: dev ## the tests with a real browser and with real processes: kills, power loss, the wheel, backups, upgrades
	@$(BIN)/python -m pytest tests/e2e tests/browser

prove: dev ## rates of verdicts and alerts in half an hour, then long campaigns: kills, bombs, full disks, fuzzing, properties
	@$(BIN)/python -m benchmarks.calibration
	@$(BIN)/python -m benchmarks.judges
	@$(BIN)/python -m benchmarks.run_variation
	@$(BIN)/python -m benchmarks.detection
	@$(BIN)/python -m pytest -rs -m 'prove or hypothesis' --hypothesis-profile=prove -n 0
	@$(BIN)/python -m pytest -rs -k 'full_disk or disk_that_fills_up' -n 0 tests/integration tests/e2e
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

generate: dev ## write the files that follow from the code: .env.example, docs/cli, docs/errors.md and others
	@$(BIN)/python -m tests.support.generated_files

bench: dev ## our code beside its peers, ratios printed
	@$(BIN)/python -m benchmarks

lock: ## resolve the requirements again (needs uv)
	$(COMPILE) pyproject.toml --extra harness -o requirements.lock
	$(COMPILE) pyproject.toml --extra harness --group build --group dev -c requirements.lock -o requirements-dev.lock
	$(COMPILE) --group build -c requirements-dev.lock -o requirements-build.lock

release: dev ## wheel, source archive, bill of materials and checksums, into dist
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory dist
	@$(BIN)/twine check --strict dist/*
	@PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible requirements.lock \
	  --output-file dist/mosaico-$(VERSION).cdx.json
	@$(BIN)/python -c 'import hashlib, pathlib; files = sorted(pathlib.Path("dist").iterdir()); \
	  pathlib.Path("dist/SHA256SUMS").write_text("".join( \
	  f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))'
	@ls -l dist

image: ## the container image, labelled with version and revision (needs docker)
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) \
	  $(if $(SOURCE),--build-arg SOURCE=$(SOURCE)) --tag mosaico --tag mosaico:$(VERSION) .

clean: ## remove the environment and caches, never data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist
