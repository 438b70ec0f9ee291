# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := src tests benchmarks docs

.PHONY: demo test check bench bench-throughput bench-engine bench-learner bench-training bench-returns bench-experiments \
	bench-ball-chase clean

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

# All benchmarks but the two that train over several seeds. PEER_GAME: the other project's own BallChase,
# exported with its own plugin outside this repository.
bench: bench-throughput bench-engine bench-learner bench-training

PEER := $(if $(PEER_GAME),--peer_game $(PEER_GAME))
PEER_VENV := $(if $(PEER_GAME),.peer-venv/.installed)

bench-throughput bench-training: bench-%: $(STAMP) $(PEER_VENV)
	$(BIN)/python benchmarks/$*.py $(PEER)

bench-engine bench-learner bench-returns bench-experiments: bench-%: $(STAMP)
	$(BIN)/python benchmarks/$*.py

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
