# Each target sets itself up: a machine with Python 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Whole files to each worker: they share graphs and trained models.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all check docs clean

demo: $(STAMP)          ## run the main job on the embedded graph
	$(BIN)/gelato demo

test: $(STAMP)          ## the fast tests (minutes, no network)
	$(BIN)/python -m pytest $(WORKERS)

test-all: $(STAMP)      ## every test, the slow ones too
	$(BIN)/python -m pytest $(WORKERS) -m ""

check: $(STAMP)         ## style, types, layers, spelling, and a wheel that works
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks examples scripts README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
	$(PYTHON) scripts/check_wheel.py

docs: $(STAMP)          ## the documentation, in site/; opens from disk
	$(BIN)/properdocs build --strict --quiet
	$(BIN)/python scripts/check_links.py site

# torch first and alone: its pinned version is the one that other packages must accept.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist demo-output site .pytest_cache .mypy_cache .ruff_cache
