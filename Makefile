PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BENCHMARKS := junctions reach

# the datasets lie next to a checkout on machines that have them; elsewhere their tests are skipped
ifndef WINZE_DATA
ifneq ($(wildcard ../shared/data),)
export WINZE_DATA := $(abspath ../shared/data)
endif
endif

# two workers with one thread each: more threads than cores makes torch many times slower
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test check lint bench docs lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(STAMP) ## show what winze does, from nothing
	$(BIN)/python -m winze demo

test: lint ## everything that `check` does, slow tests too
	$(PYTEST)

check: lint ## format, lint, import rules, types and the fast tests
	$(PYTEST) -m "not slow"

lint: $(STAMP) ## format, lint, import rules and types; no tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

bench: $(STAMP) ## run every benchmark; each writes its file in results/
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py; done

docs: $(STAMP) ## write the tables of README.md and docs/ from results/
	$(BIN)/python docs/tables.py

lock: $(STAMP) ## write constraints.txt from the versions in .venv
	$(BIN)/python .ci/lock.py
	touch $(STAMP)

clean: ## remove caches and build files; keeps .venv and runs/
	rm -rf build dist demo *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# the stamp is younger than what it was made from, so an unchanged environment is left as it is
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@
