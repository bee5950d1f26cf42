# Two commands: `make serve` runs a node, `make test` runs everything that CI runs.
# Needed beforehand: python3 (3.11 or newer) with venv, and make. Everything else is installed into .venv, pinned and hashed.

PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
# Written last, so that an installation that broke off half-way is done again.
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help install install-dev java serve test lint unit conformance soak bench lock clean

help:
	@echo "make serve        a node on http://127.0.0.1:4437, data in ./streams-data (ARGS=\"--port 4438\" is passed on)"
	@echo "make test         everything that CI runs, fast first (make lint, unit or conformance for a part)"
	@echo "make soak         the conformance suite 20 times, each on a new node (ARGS=\"--runs 3\" for fewer)"
	@echo "make bench        numbers, with ARGS passed on"
	@echo "make install      the node only, into $(VENV) (install-dev adds the test tools)"
	@echo "make java         Java for Spark, where the machine has no Java 17 or 21 (install does it, too)"
	@echo "make lock         write the requirements locks again from pyproject.toml"
	@echo "make clean        remove what the tools made; ./streams-data stays"

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "python3 3.11 or newer is needed; name another with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "python3 has no venv module; Debian and Ubuntu ship it as python3-venv"; exit 1; }

$(INSTALLED): requirements.lock pyproject.toml | $(PY)
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@$(PY) -m ops.java_runtime || echo "indexes will not be built here until there is a Java 17 or 21: make java"
	@touch $@

# The second lock is the first one plus the test tools, at equal versions (tests/tidy keeps that true).
$(INSTALLED_DEV): requirements-dev.lock $(INSTALLED)
	$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

install: $(INSTALLED)

install-dev: $(INSTALLED_DEV)

java: $(INSTALLED)
	@$(PY) -m ops.java_runtime

serve: install
	@exec $(VENV)/bin/streams-node serve --data ./streams-data --no-auth $(ARGS)

test: install-dev
	@$(PY) -m ops.check $(ARGS)

lint: install-dev
	@$(PY) -m ops.check --only format --only ruff --only mypy --only tidy $(ARGS)

unit: install-dev
	@$(PY) -m ops.check --only unit $(ARGS)

conformance: install-dev
	@$(PY) -m ops.check --only conformance $(ARGS)

soak: install-dev
	@$(PY) -m ops.soak $(ARGS)

bench: install
	@$(PY) -m ops.bench $(ARGS)

# uv resolves once for all supported platforms and Python versions. It is a tool of this target only, in a throw-away
# environment, and no dependency of the project: the locks are plain pip files.
LOCK := compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock"

lock:
	@set -eu; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp"; "$$tmp/bin/python" -m pip --disable-pip-version-check --quiet install uv; \
	"$$tmp/bin/uv" pip $(LOCK) --group build -o requirements.lock pyproject.toml; \
	"$$tmp/bin/uv" pip $(LOCK) --group build --group dev -c requirements.lock -o requirements-dev.lock pyproject.toml; \
	"$$tmp/bin/uv" pip $(LOCK) --group pyproject.toml:node -o requirements-node.lock; \
	"$$tmp/bin/uv" pip $(LOCK) --group pyproject.toml:java -o requirements-java.lock

clean:
	rm -rf $(VENV) build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
	  .schemathesis .reports
	find . -path ./streams-data -prune -o -type d \( -name __pycache__ -o -name node_modules \) -prune -exec rm -rf {} +
