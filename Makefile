PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BENCHMARKS := junctions reach scan train residual_droppath spiral kills play

# the datasets lie next to a checkout on machines that have them; elsewhere their tests are skipped
ifndef WINZE_DATA
ifneq ($(wildcard ../shared/data),)
export WINZE_DATA := $(abspath ../shared/data)
endif
endif

# two workers with one thread each: more threads than cores makes torch many times slower
# compiled modules are stored even where the environment forbids it: the tests start some sixty processes
# each worker starts with half of the files, so that tests of one file share what they set up; then it takes over
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal --durations 20

.DEFAULT_GOAL := help
.PHONY: help demo test check lint bench peers pages docs lock clean

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

bench: $(STAMP) peers ## run every benchmark; each writes its file in results/
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py; done

peers: .venv-peers/.installed ## install the tools that the benchmarks compare with, in .venv-peers

pages: $(STAMP) ## write the tables and figures of README.md and docs/ from results/
	$(BIN)/python docs/generate/figures.py
	$(BIN)/python docs/generate/tables.py

docs: pages ## the same, then build the docs site in site/; nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: $(STAMP) ## write constraints.txt from the versions in .venv
	$(BIN)/python .ci/lock.py
	touch $(STAMP)

clean: ## remove caches and build files; keeps .venv and runs/
	rm -rf build dist demo site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# the stamp is younger than what it was made from, so an unchanged environment is left as it is
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@

# an environment beside .venv that sees its packages; the tools come without their dependencies, so that none of
# those packages changes under them
.venv-peers/.installed: benchmarks/peers.txt $(STAMP)
	test -x .venv-peers/bin/python || $(BIN)/python -m venv .venv-peers
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> "$$(.venv-peers/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/main.pth"
	.venv-peers/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers.txt
	touch $@
