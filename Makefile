# Two commands are enough on a fresh Debian machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
FRAMEWORKS_VENV ?= .venv-frameworks
BIN := $(VENV)/bin

.PHONY: help
help:  ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(VENV)/run.stamp: pyproject.toml
	@echo "making $(VENV) (once, half a minute)" >&2
	@test -x $(BIN)/python || $(PYTHON) tests/setup/make_venv.py $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable . "mfusepy>=1.1"
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/run.stamp
	@echo "installing what the tests need, torch among it (once)" >&2
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable . --group dev
	@$(BIN)/python -m pip install --quiet "torch==2.13.0"
	@touch $@

.PHONY: demo
demo:  ## A training loop on slow storage, without Slurm, GPU or torch: prints its report
	@bash tests/setup/debian_packages.sh fuse
	@$(MAKE) --no-print-directory $(VENV)/run.stamp
	@$(BIN)/python -m tests.labs.demo

.PHONY: setup
setup:  ## Install everything the tests need (Debian packages when root)
	@bash tests/setup/debian_packages.sh all
	@$(MAKE) --no-print-directory $(VENV)/dev.stamp

.PHONY: test
test: setup  ## Everything with a real Slurm cluster, under 25 minutes on 2 cores
	$(BIN)/python -m pytest -m "not long and not grid and not cluster" --numprocesses 2 --dist loadfile
	$(BIN)/python -m pytest -m "cluster and not long" --numprocesses 3 --dist loadfile
	$(BIN)/python -m pytest -m "grid and not long"

.PHONY: test-long
test-long: setup  ## The full grid three times over, crash tests at full length, fuzzing, frameworks
	$(BIN)/python -m pytest -m "long" --timeout 3600
	$(BIN)/python -m tests.grid.runner --repeat 3
	@$(MAKE) --no-print-directory test-frameworks

# litdata, mosaicml-streaming and DLIO come without their dependencies: pyproject.toml says why.
$(FRAMEWORKS_VENV)/frameworks.stamp: pyproject.toml
	@echo "installing Lightning, Transformers, WebDataset and others into $(FRAMEWORKS_VENV) (once, minutes)" >&2
	@test -x $(FRAMEWORKS_VENV)/bin/python || $(PYTHON) tests/setup/make_venv.py $(FRAMEWORKS_VENV)
	@$(FRAMEWORKS_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@PYTHONWARNINGS=ignore $(FRAMEWORKS_VENV)/bin/python -m pip install --quiet "torch==2.13.0" --editable . --group frameworks
	@$(FRAMEWORKS_VENV)/bin/python -m pip install --quiet --no-deps --group frameworks-bare
	@touch $@

.PHONY: test-frameworks
test-frameworks:  ## Real runs of PyTorch, Lightning, HF Trainer, WebDataset, Streaming, litdata, Grain
	@bash tests/setup/debian_packages.sh fuse
	@$(MAKE) --no-print-directory $(FRAMEWORKS_VENV)/frameworks.stamp
	$(FRAMEWORKS_VENV)/bin/python -m pytest tests/frameworks -m "long" -s --timeout 3600

.PHONY: check
check: $(VENV)/dev.stamp  ## Linters, types, import contracts, generated pages, news
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

.PHONY: docs
docs: $(VENV)/dev.stamp  ## Write the generated pages of docs/
	$(BIN)/python docs/generate.py

.PHONY: bench
bench: $(VENV)/dev.stamp  ## Own cost beside the peers', as ratios
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

.PHONY: dist
dist: $(VENV)/dev.stamp  ## Wheel and sdist
	$(BIN)/python -m build
