# Each target does all its own set-up: it finds a Python and makes .venv on the first call.
# To choose the Python yourself: make test PYTHON=/path/to/python3.12

PY := .venv/bin/python

# Tests, the demo and the soak start many processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint format bench soak coverage lock clean

help:
	@echo "make demo      real flights through five questions, on Spark, live in this terminal"
	@echo "make test      every test"
	@echo "make lint      ruff, mypy --strict, the import contract"
	@echo "make format    let ruff lay out the code"
	@echo "make bench     the figures that the docs quote, as ratios of one run"
	@echo "make soak      forty times kill -9 and restart of the Spark pipeline (SKYBAND_SEED=… repeats a run's moments),"
	@echo "               every property at depth,"
	@echo "               every stream of up to seven rows in every cut into batches (hours)"
	@echo "make coverage  the tests again, with the lines of src/ and benchmarks/ that they did not reach"
	@echo "make lock      compile the requirements files anew (needs uv)"

demo:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh run java
	@$(PY) -m skyband.cli demo

# Half of the time went into the compiler's optimiser, which changes no result (make soak has it whole): so less of it.
test:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev
	@NUMBA_OPT=$${NUMBA_OPT:-1} $(PY) -m pytest -n 4 --dist loadfile --no-loadscope-reorder

lint:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-cache

format:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev
	@$(PY) -m ruff check -q --fix . || true
	@$(PY) -m ruff format .

bench:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev
	@$(PY) -m benchmarks all

soak:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev java
	@$(PY) -m pytest -m soak --timeout=0

# Spark's Python workers are measured too (tests/measured). A process that a test killed may leave an empty file behind.
coverage:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh dev
	@$(PY) -m coverage erase
	@status=0; \
	export NUMBA_OPT=$${NUMBA_OPT:-1}; \
	PYTHONPATH="$(CURDIR)/tests/measured" \
	PYSPARK_SUBMIT_ARGS="--conf spark.python.daemon.module=measured_daemon pyspark-shell" \
	$(PY) -m coverage run -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder || status=$$?; \
	$(PY) -m coverage run -m pytest -q -m soak tests/test_uncompiled.py -k without_compiling || status=$$?; \
	find . -maxdepth 1 -name '.coverage.*' -size 0 -delete; \
	$(PY) -m coverage combine -q && $(PY) -m coverage report && exit $$status

COMPILE := uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11
lock:
	$(COMPILE) requirements-build.in -o requirements-build.txt
	$(COMPILE) --extra spark --extra postgres --extra kafka pyproject.toml -o requirements.txt
	$(COMPILE) requirements-dev.in -o requirements-dev.txt
	$(COMPILE) requirements-soak.in -o requirements-soak.txt

clean:
	rm -rf .venv
