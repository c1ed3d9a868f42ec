# setup · engine · demo · demo-tune · test · check · bench. Each sets up what it needs; what is there already is kept.
#
#   make demo SEED=7 SCENARIO=few-blocks     PYTHON=python3.12     PYTORCH_INDEX=URL (see tools/make_engine.sh)

PYTHON ?= python3
PELLUCID := .venv/bin/python
ENGINE := .venv-engine/bin/python
GEMMA := .models/gemma-3-270m/made
TINY := $(foreach name,dense shallow moe skewed mla,.models/tiny-$(name)/made)
SIGHTED := .models/tiny-sighted/made
PYTEST := $(PELLUCID) -m pytest -q
export PYTORCH_INDEX

.PHONY: setup engine both demo demo-tune test test-verdicts check static unit bench
.DELETE_ON_ERROR:

setup: .venv/made

engine: .venv-engine/made .venv-engine-0.28/made $(GEMMA) $(TINY) $(SIGHTED)

# The two environments have nothing to do with each other: pip is busy twice as long one after the other.
both:
	@$(MAKE) --no-print-directory -j2 setup engine

demo: both
	@$(PELLUCID) -m tools.demo $(if $(SEED),--seed $(SEED)) $(if $(SCENARIO),--scenario $(SCENARIO))

demo-tune: both
	@$(PELLUCID) -m tools.demo_tune $(if $(BUDGET),--budget $(BUDGET))

test: export HYPOTHESIS_PROFILE = thorough
test: both .prometheus/made
	$(PYTEST) -n 2 -m "not engine"
	$(PYTEST) -m "engine and not verdict"

# Trials of two engines, seen through. They want a machine that nobody else uses.
test-verdicts: both
	$(PYTEST) -m verdict

# Two at a time: mypy has one core for itself, and tests wait for processes and clocks now and then. Byte code is kept
# whatever the environment says: without it every worker compiles all tests, and rewrites their asserts, each time.
check: export PYTHONDONTWRITEBYTECODE =
check: setup
	@$(MAKE) --no-print-directory -j2 --output-sync=target static unit

static:
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/mypy

unit:
	$(PYTEST) -n 2 --dist worksteal -m "not engine and not slow"

bench: both
	$(PELLUCID) -m bench

# For tests only. Debian's package is unpacked here: that takes no root and starts no service.
.prometheus/made:
	@mkdir -p $(@D)
	-command -v prometheus || { cd $(@D) && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; }
	@touch $@

.venv/made: pyproject.toml probe/pyproject.toml
	$(PYTHON) -m venv .venv
	$(PELLUCID) -m pip --disable-pip-version-check install --quiet -e ./probe -e '.[dev]'
	@touch $@

.venv-engine/made: tools/make_engine.sh probe/pyproject.toml
	tools/make_engine.sh $(PYTHON) .venv-engine 0.32.0
	@touch $@

.venv-engine-0.28/made: .venv-engine/made
	tools/make_engine.sh $(PYTHON) .venv-engine-0.28 0.28.0 .venv-engine
	@touch $@

$(GEMMA): tools/models/gemma.py | .venv-engine/made
	$(ENGINE) tools/models/gemma.py $(@D)
	@touch $@

$(TINY) &: tools/models/tiny.py | .venv-engine/made
	$(ENGINE) tools/models/tiny.py .models
	@touch $(TINY)

$(SIGHTED): tools/models/sighted.py tools/models/tiny.py | .venv-engine/made
	$(ENGINE) -m tools.models.sighted $(@D)
	@touch $@
