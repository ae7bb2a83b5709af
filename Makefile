# Every command sets up what it needs first (setup.sh), and only what has changed.
.DEFAULT_GOAL := help
.PHONY: help demo serve test soak fuzz lint bench clean

BIN := .venv/bin
BENCHMARKS := $(subst /,.,$(basename $(wildcard engine/benchmarks/[a-z]*.py backend/*/benchmark.py backend/races/benchmark_itself.py)))
# What a checkout runs keeps its data in the checkout; an installed `trainyard` uses the home directory.
export TRAINYARD_DATA_DIR ?= $(CURDIR)/.trainyard

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

demo:  ## train the demo jobs and watch them race in a browser; ONCE=1 ends by itself
	./setup.sh page
	$(BIN)/trainyard demo $(if $(filter-out 0,$(ONCE)),--once)

serve:  ## the server alone, on 127.0.0.1:8000
	./setup.sh page
	$(BIN)/trainyard serve

test:  ## all tests, the lanes at once; arguments for pytest in ARGS
	./setup.sh environment server test
	./setup.sh page
	./setup.sh npm test
	$(BIN)/python -m tests.suite $(ARGS)

soak:  ## the tests that take minutes or tell a trend; arguments for pytest in ARGS
	./setup.sh environment server test
	./setup.sh page
	$(BIN)/python -m pytest --lane soak $(ARGS)
	$(BIN)/python -m pytest --database postgresql $(or $(ARGS),tests/backend tests/e2e)

fuzz:  ## random networks against a plain PyTorch loop: N=2000 SEED=7, more in ARGS
	./setup.sh environment server test
	$(BIN)/python -m tests.fuzz --networks $(or $(N),200) $(if $(SEED),--seed $(SEED)) $(ARGS)

lint:  ## ruff, mypy and the front end's own
	./setup.sh environment server test lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	./setup.sh npm run lint

bench:  ## every benchmark's short set; one in full: NAME=engine.benchmarks.sweep, its arguments in ARGS
	./setup.sh environment server bench
	@set -e; for name in $(or $(NAME),$(BENCHMARKS)); do \
	  echo "== $$name"; $(BIN)/python -m $$name $(if $(NAME),$(ARGS),--quick); done

clean:  ## remove what was made: .venv, the page, caches (not .trainyard, which holds the jobs)
	rm -rf .venv frontend/node_modules frontend/dist .pytest_cache .mypy_cache .ruff_cache *.egg-info
