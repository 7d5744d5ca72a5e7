# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test lint bench reproduce lock clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

demo: setup
	$(BIN)/crowdfield demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint
	$(BIN)/python -m pytest -n 2

bench: setup
	$(BIN)/python -m benchmarks

lock: setup
	$(BIN)/pip freeze --exclude-editable --exclude pip > requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
