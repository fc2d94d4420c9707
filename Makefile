# Needs Python >= 3.11, pip and make; everything else is installed into .venv by the first target that runs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install quickstart test fast check bench clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), f's2r_jax needs Python 3.11 or newer, not {sys.version.split()[0]}'"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,logs,search,warp]" -c constraints.txt
	touch $@

quickstart: install
	$(BIN)/s2r quickstart

test: install
	S2R_FAST=1 $(BIN)/python -m pytest tests notebooks --nbmake -m "not gpu" -n 2 --dist loadfile

fast: install
	$(BIN)/python -m pytest -m "not slow and not gpu"

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ty check

clean:
	rm -rf .venv
