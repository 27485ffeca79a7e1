# Every target sets itself up in .venv and can be called first on a bare machine; stamp files make the next call immediate.
#   PYTHON=python3.13 make test      another interpreter          make clean test CONSTRAINTS=    the newest of everything
#   make test PYTEST_ARGS="tests/identities -x"                   make test JOBS=8            more processes

PYTHON      ?= python3
CONSTRAINTS ?= .ci/constraints.txt
JOBS        ?= 2
PYTEST_ARGS ?=

VENV := .venv
PY   := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help demo test suite test-slow test-gpu lint style types layers stubs bench bench-gpu sweep-demo study fuzz docs clean
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.plot  ## install the core, simulate a few mechanisms, leave pictures, replays and data in out/demo
	@$(PY) -m whippletree.cli demo

# memory that a kernel has not written is no zero there: what reads it before gives other results (glibc; ignored elsewhere)
suite test-slow: export MALLOC_PERTURB_ := 1
# each process has a core for itself; without this, the threads of a linear algebra library take it from the others
suite test-slow: export OPENBLAS_NUM_THREADS := 1
# and each keeps the bytecode that it has made, whatever the surroundings say: without it, every process of the tests, and
# every program that they start, would compile the package and the tests anew (about 0.4 s and 20 s)
suite test-slow: export PYTHONDONTWRITEBYTECODE :=

# types and layers are checked beside the tests, after what ruff sees at once
test: style  ## lint, types, layers and the tests (with Pinocchio and MuJoCo as peers), of slow ones the first case
	@$(MAKE) --no-print-directory -j 2 suite types layers

suite: $(VENV)/.test
	$(PY) -m pytest -n $(JOBS) --slow=first $(PYTEST_ARGS)

test-slow: $(VENV)/.test  ## the slow cases that make test leaves out
	$(PY) -m pytest -n $(JOBS) --slow=rest $(PYTEST_ARGS)

lint: style types layers  ## ruff check and format, mypy --strict, import layers

style: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.test
	$(PY) -m mypy --strict src

layers: $(VENV)/.test
	$(VENV)/bin/lint-imports --no-logo

stubs: $(VENV)/.core  ## the types of the functions of a model, generated from the table of functions
	$(PY) -m whippletree.functions.stubs

bench: $(VENV)/.test  ## this library and its peers, measured side by side
	$(PY) -m benchmarks

test-gpu: $(VENV)/.test  ## the compiled functions on an NVIDIA GPU against the CPU, bit by bit
	$(PY) -m pytest -m gpu -rs $(PYTEST_ARGS)

bench-gpu: $(VENV)/.test  ## rates on an NVIDIA GPU, beside its two ceilings
	$(PY) -m benchmarks.gpu

sweep-demo: $(VENV)/.test  ## one sweep on this machine and on a local dask cluster of two workers, some of them killed
	$(PY) -m benchmarks.sweep_engines

study: $(VENV)/.test  ## the study of conditioning: figures into docs/conditioning, tables printed
	$(PY) -m studies.conditioning

fuzz: $(VENV)/.test  ## seeded attacks on files, calls, cache, runs, digits and contacts: FUZZ_SECONDS=60 FUZZ_SEED=0 FUZZ_ARGS="--jobs 4"
	$(PY) -m fuzz $(FUZZ_ARGS)

docs: $(VENV)/.docs  ## the documentation as HTML in docs/_build, gallery included; warnings are errors
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build

clean:  ## remove everything that make made, the virtual environment too
	rm -rf $(VENV) build dist out docs/_build docs/gallery docs/_static/replays .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

# --- set-up: the environment, then one stamp per set of packages ---

say  = printf 'make: %s\n'
stop = { $(say) $(1) >&2; exit 1; }

# the pinned versions have wheels for Python 3.11 to 3.14 only
pins    = $$($(PY) -c 'import sys; print("-c $(CONSTRAINTS)" if "$(CONSTRAINTS)" and sys.version_info < (3, 15) else "")')
# (an editable installation leaves bytecode to the first import; compiled here, the first process is as quick as the next)
install = $(say) "installing $(1) into $(VENV) (once) ..." && $(PY) -m pip install -qq --disable-pip-version-check $(pins) -e '.$(2)' && $(PY) -m compileall -q src

# a Python asked for by name replaces an environment that was made with another
ifneq ($(origin PYTHON),file)
version = $(shell $(1) -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)
ifneq ($(call version,$(PYTHON)),$(call version,$(PY)))
RENEW := yes
.PHONY: $(VENV)/.made
endif
endif

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null 2>&1 || $(call stop,"$(PYTHON) is missing: apt-get install python3 (3.11 or newer)")
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || $(call stop,"$(PYTHON) is too old: apt-get install python3.11 (or newer) and call PYTHON=python3.11 make")
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || $(call stop,"$(PYTHON) has no venv module: apt-get install python3-venv")
	@test -z "$(RENEW)" && $(PY) -m pip --version >/dev/null 2>&1 || { $(say) "creating $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear $(VENV); }
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@$(call install,the core,)
	@touch $@

$(VENV)/.plot: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@$(call install,the core with plots,[plot])
	@touch $@ $(VENV)/.core

$(VENV)/.test: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@$(call install,the core with test tools and peers,[test])
	@touch $@ $(VENV)/.core $(VENV)/.plot

$(VENV)/.docs: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@$(call install,the core with documentation tools,[docs])
	@touch $@ $(VENV)/.core
