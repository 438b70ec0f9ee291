# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := src tests benchmarks

.PHONY: demo test check bench bench-ball-chase clean

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

# PEER_GAME: the other project's own BallChase, exported with its own plugin outside this repository.
bench: $(STAMP) $(if $(PEER_GAME),.peer-venv/.installed)
	$(BIN)/python benchmarks/throughput.py $(if $(PEER_GAME),--peer_game $(PEER_GAME))

bench-ball-chase: $(STAMP)
	$(BIN)/python benchmarks/ball_chase.py

.peer-venv/.installed:
	$(PYTHON) -m venv .peer-venv
	.peer-venv/bin/python -m pip install --quiet torch==2.13.0 godot-rl==0.8.2
	touch $@

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .peer-venv build dist
