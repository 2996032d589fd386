# One verb a target. PYTHON picks the interpreter, VENV the environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Of chaos and soak.
DURATION ?= 600
MINUTES  ?= 20
DEVICES  ?= 200
READY  := $(VENV)/.ready
# Many tests start our programs; without cached bytecode each start compiles them anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test samples check fix lint types imports protos drift lock services bench bench-client bench-ingest fuzz torture chaos soak scale engines-real memory-cases clean-levels clean

help:     ## list the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(READY)  ## create the environment: both sides, an engine, a model, the development tools

$(READY): requirements/dev.txt requirements/demo.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "edgesweep needs Python 3.10 or newer, $(PYTHON) is older: make setup PYTHON=/path/to/a/newer/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/demo.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## a real sweep from a real engine to the answer: build/demo/report.html
	@exec $(BIN)/python demo/demo.py

test: setup services  ## all tests; those whose services are missing are skipped by name
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not alone and not sample'
	$(BIN)/python -m pytest -m 'alone and not sample'

samples: setup services  ## short runs of chaos, torture, fuzz and scale (4 minutes)
	$(BIN)/python -m pytest -m sample

services:
	@tests/services.sh

check: lint types imports drift  ## everything but the tests

fix: setup  ## format, and mend what can be mended
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: setup
	$(BIN)/mypy --no-error-summary
	$(BIN)/mypy --no-error-summary --strict demo/*.py requirements/lock.py protos/generate.py protos/schemas.py

imports: setup
	$(BIN)/lint-imports

protos: setup  ## generate protos/edgesweep/v1 from its .proto files
	$(BIN)/python protos/generate.py protos
	$(BIN)/python protos/schemas.py

drift: setup
	$(BIN)/python protos/generate.py --check protos
	$(BIN)/python protos/schemas.py --check

lock: setup  ## pin requirements/*.txt anew; run with the oldest supported Python
	$(BIN)/python requirements/lock.py

bench: setup  ## what measuring costs: times against a server's own record, client, sensors
	$(BIN)/python tests/bench/timing.py
	$(BIN)/python tests/bench/client_cost.py
	$(BIN)/python tests/bench/sensor_cost.py

bench-client: setup  ## our client beside others, against one mock (PEERS="--peer vllm=PYTHON ...")
	$(BIN)/python tests/bench/client_cost.py $(PEERS)

bench-ingest: setup services  ## what a collector takes a CPU-second, beside a bridge (INGEST="--turns 2")
	$(BIN)/python tests/bench/ingest_bench.py $(INGEST)

fuzz: setup  ## a million inputs for all that reads what others wrote (FUZZ="--inputs N --seed S")
	$(BIN)/python tests/fuzz/run.py $(FUZZ)

torture: setup  ## kills, damaged files, full disks and power cuts for the spool (TORTURE="--kills N --seed S")
	$(BIN)/python tests/torture/spool.py $(TORTURE)

chaos: setup services  ## everything fails, nothing is lost or doubled (DURATION=600 SEED=N)
	$(BIN)/python tests/chaos/chaos.py --duration $(DURATION) $(if $(SEED),--seed $(SEED))

soak: setup services  ## does a collector's memory stand still under a fleet (MINUTES=20 DEVICES=200)
	$(BIN)/python tests/soak/soak.py --minutes $(MINUTES) --devices $(DEVICES)

scale: setup services  ## what a collector takes as the fleet grows (SCALE="--devices 100 200")
	$(BIN)/python tests/soak/scale.py $(SCALE)

engines-real: setup  ## llama.cpp and vLLM for real (ENGINES="--quick --vllm-python PYTHON")
	$(BIN)/python tests/bench/engines_real.py $(ENGINES)

memory-cases: setup  ## are memory verdicts right: drawn cases in cgroups (root, an hour)
	$(BIN)/python tests/bench/memory_cases.py --cases 104 --hold 30

clean-levels: setup  ## do undisturbed levels of a real engine carry no flag (30 min, quiet box)
	$(BIN)/python tests/bench/clean_levels.py

clean:    ## remove environments and build outputs
	rm -rf .venv .venv-* build dist
