# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
TOOLS := .tools/bin
TOOLS_READY := .tools/.ready

.DEFAULT_GOAL := help
.PHONY: help setup system demo test lint quick-lint docs coverage wheels-check fuzz bench reproduce lock audit sbom clean

help:
	@echo "make demo       a flood map from unreliable reports, in ./demo"
	@echo "make test       linters and all tests"
	@echo "make docs       the documentation as a site, in ./build/docs"
	@echo "make coverage   which lines the tests reach, in ./build/coverage"
	@echo "make wheels-check  the wheel with each extra alone: it works, or says what is missing"
	@echo "make fuzz       hostile input for every reader, for FUZZ_SECONDS (600)"
	@echo "make reproduce  every experiment of the paper, in ./reproduce"
	@echo "make bench      benchmarks against other tools, in ./bench"
	@echo "make audit      known flaws of the packages that we use, and slips of our own"
	@echo "make sbom       what the service is made of (CycloneDX), in ./sbom.json"
	@echo "make lock       the lock files again, from pyproject.toml"
	@echo "make setup      only the virtual environment .venv that the others use"

setup: $(READY)

# Nothing is installed whose bytes are not those that were locked. The lock is complete, so that pip looks for no
# dependencies (--no-deps): some versions of it take "coverage[toml]" for a package that nobody has locked.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "crowdfield needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m crowdfield.service.basemap
	@touch $(READY)

# The tests open pages in Chromium and start their own PostgreSQL, with PostGIS. Without them, those tests are skipped and say so.
system:
	@missing=; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing="$$missing postgresql"; \
	ls /usr/share/postgresql/*/extension/postgis.control >/dev/null 2>&1 || missing="$$missing postgresql-postgis"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
	  echo "Not installed:$$missing. Tests that need them will be skipped; to run them too: sudo apt-get install$$missing" >&2; \
	fi

demo: setup
	$(BIN)/crowdfield demo

lint: setup quick-lint
	$(BIN)/mypy

quick-lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# One thread per process: several with two threads each fight over two cores. Three processes for two cores, because tests of pages
# and servers wait half of their time. Each process takes its share of the tests in their order, in which tests that wait
# come first (tests/conftest.py), and the one that ends first steals from the end of the others' shares: tests of one file
# share a server or a browser, which all processes would start if they took turns.
PYTEST = $(BIN)/python -m pytest -n 3 --dist worksteal
# Without its cache mypy takes half a minute of a processor. It works beside the tests at a low priority, because readers of files
# have deadlines, which they miss on busy cores; at the lowest one it would only begin when the tests have ended. Its verdict
# comes last, and counts as much as theirs.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: setup system quick-lint
	@nice -n 10 $(BIN)/mypy >.venv/mypy.txt 2>&1 & types=$$!; \
	$(PYTEST); tests=$$?; \
	wait $$types; typed=$$?; cat .venv/mypy.txt; \
	exit $$((tests + typed))

# Warnings are errors: a link that leads nowhere, a name that does not exist. Search works without a network.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

# Slower than `make test`, and never a condition of it: what is uncovered is for people to judge.
coverage: export OMP_NUM_THREADS = 1
coverage: export OPENBLAS_NUM_THREADS = 1
coverage: setup system
	$(PYTEST) --cov=crowdfield --cov-report=term:skip-covered --cov-report=html:build/coverage
	@echo "Open build/coverage/index.html"

# Downloads more than a gigabyte, so it is no part of `make test`; run it before a release.
wheels-check: setup
	$(BIN)/python deploy/wheels_check.py

# Atheris follows what the readers do with each input; where it does not install, Hypothesis draws the inputs.
FUZZ_SECONDS ?= 600
fuzz: setup
	@$(PIP) install --quiet "atheris>=3,<4" || echo "Atheris does not install here; Hypothesis is used instead."
	PYTHONPATH=src $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

bench: setup
	$(BIN)/python -m benchmarks

reproduce: setup
	$(BIN)/crowdfield reproduce all --output reproduce

# What looks after the packages has an environment of its own: none of it is needed to run or to test.
$(TOOLS_READY): tools.lock
	$(PYTHON) -m venv .tools
	$(TOOLS)/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes --requirement tools.lock
	@touch $(TOOLS_READY)

# For every platform and Python that we support, with the hashes of all files, and without the address of any package index.
# Versions that are locked stay; `make lock UPGRADE=--upgrade` takes the newest. What is deployed is what is tested.
COMPILE = $(TOOLS)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header $(UPGRADE)
lock: $(TOOLS_READY)
	$(COMPILE) pyproject.toml --extra all --group dev --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra serve --group build --constraint requirements.lock --output-file deploy/requirements.lock
	$(COMPILE) --group tools --output-file tools.lock

audit: setup $(TOOLS_READY)
	$(BIN)/ruff check .
	$(TOOLS)/python deploy/audit.py requirements.lock deploy/requirements.lock tools.lock

sbom: $(TOOLS_READY)
	$(TOOLS)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file sbom.json deploy/requirements.lock

clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache sbom.json
