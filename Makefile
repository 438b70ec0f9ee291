# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := src tests benchmarks

.PHONY: demo test check bench clean

demo: $(STAMP)
	$(BIN)/gdrl demo

test: check $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/gdformat --check godot/addons godot/games godot/tests
	$(BIN)/gdlint godot/addons godot/games godot/tests

bench: $(STAMP)
	$(BIN)/python benchmarks/throughput.py $(if $(PEER_GAME),--peer_game $(PEER_GAME))

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist
