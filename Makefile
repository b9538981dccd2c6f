# `make help` says what there is. Everything installs what it needs into .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Some machines set it. The tests start a few hundred Python processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help try scale scale-all test test-versions golden faults test-properties test-long test-kind test-kind-all selftest selftest-all nightly backends lint docs bench clean lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip --quiet --disable-pip-version-check install --require-hashes -r requirements-dev.lock
	$(BIN)/pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation --editable .
	@touch $@

try: $(READY) ## a first look, under a minute: 100 pods on a real control plane, measured
	$(BIN)/python -m pytest --grovescale tests/scale/test_thousand_pods.py --grovescale-nodes=20 \
	  --grovescale-param replicas=50 --grovescale-param hold=5s $(ARGS)

scale: $(READY) ## the main job: 1000 pods on a real control plane, measured; ARGS="--grovescale-param replicas=100"
	$(BIN)/python -m pytest --grovescale tests/scale/test_thousand_pods.py $(ARGS)

scale-all: $(READY) ## the main job and the same for Deployments, StatefulSets and Jobs
	$(BIN)/python -m pytest --grovescale tests/scale $(ARGS)

# The pages are tested in a real browser. Where it cannot be installed, those tests say so and are skipped.
.PHONY: browser
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null \
	  || echo "no chromedriver, and it cannot be installed here: the browser tests will be skipped"

# A test that waits for what does not come would take all of CI's time and not say where: it fails with all threads' stacks.
LIMITED := --timeout=600 --timeout-method=signal

# What fails runs once more, alone: a test on a real control plane waits for other programs, too. The output names it, and
# what fails then has failed.
AGAIN := $(LIMITED) --last-failed --last-failed-no-failures=none --maxfail=5 --snapshot-warn-unused -rP --show-capture=no
IF_FAILED = || { [ $$? = 1 ] && echo "what failed runs once more, alone" &&

# Tests with a control plane wait more than they compute: four of six workers begin with them, two with the unit tests.
WORKERS := 6
test: $(READY) browser ## the tests, on a real control plane where they need one
	$(BIN)/grovescale setup
	$(BIN)/python -m pytest $(LIMITED) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cache-clear -m "not long" $(ARGS) \
	  $(IF_FAILED) $(BIN)/python -m pytest $(AGAIN); }

golden: $(READY) ## write the golden files of the unit tests: after a change of wording; review their diff
	$(BIN)/python -m pytest -q -n 2 --snapshot-update tests/unit $(ARGS)

faults: $(READY) ## break 120 runs on purpose and answer four questions of each; an hour, ARGS="--only=interrupt --count=9"
	$(BIN)/grovescale setup
	$(BIN)/python -m tools.faults --markdown=reports/faults.md --keep=reports/faults $(ARGS)

# One defect of each kind: API traffic, idle behaviour, work left undone, served metrics, and three for rules alone.
DEFECTS := clean noop-writes hot-loop orphan name-label unowned void-writes lone-worker

selftest: $(READY) ## the power of comparisons, and every check against some defects and none; about 6 minutes
	$(BIN)/grovescale setup
	$(BIN)/grovescale selftest power
	$(BIN)/grovescale selftest defects --again $(addprefix --only=,$(DEFECTS)) $(ARGS)

selftest-all: $(READY) ## the same, against all defects; about 40 minutes
	$(MAKE) selftest DEFECTS=

# KIND=--where-possible: succeed, and say why, on a machine that cannot run containers.
RUN_ON_KIND = $(BIN)/python -m tools.kind run $(KIND) -- $(BIN)/python -m pytest tests/kind

test-kind: $(READY) ## the tests on kind clusters, 100 pods; makes engine and images, at first about 20 minutes
	$(BIN)/grovescale setup
	$(RUN_ON_KIND) $(LIMITED) --cache-clear -m "not long" $(ARGS) $(IF_FAILED) $(RUN_ON_KIND) $(AGAIN); }

test-kind-all: $(READY) ## all tests on kind clusters: 1000 pods as well, and each further way for a node to fail
	$(BIN)/grovescale setup
	$(RUN_ON_KIND) --cache-clear $(ARGS) $(IF_FAILED) $(RUN_ON_KIND) $(AGAIN); }

test-properties: $(READY) ## the property tests of the unit tests, with many more examples than `make test` has
	$(BIN)/python -m pytest -q -n 2 -m hypothesis --hypothesis-profile=thorough tests/unit $(ARGS)

test-long: $(READY) ## what `make test` leaves out: the other scenarios, and what each is there to catch
	$(BIN)/grovescale setup
	$(BIN)/python -m pytest -m "long and not kind" tests $(ARGS)

nightly: test-properties test-long test-kind-all selftest-all ## what CI makes a part of, whole; about 40 minutes with the images made

MAIN_JOB := -m pytest --grovescale tests/scale/test_thousand_pods.py --grovescale-budgets=off
FLOOR := -m pytest --grovescale tests/scale/test_bare_pods.py
backends: $(READY) ## the main job on local, on kind, and on kind with the operator as a pod, in one table
	$(BIN)/python $(FLOOR) --grovescale-reports=reports/backends/local-floor $(ARGS)
	$(BIN)/python $(MAIN_JOB) --grovescale-reports=reports/backends/local $(ARGS)
	$(BIN)/python -m tools.kind run -- sh -c '\
	  $(BIN)/python $(FLOOR) --grovescale-cluster=kind --grovescale-reports=reports/backends/kind-floor $(ARGS) && \
	  $(BIN)/python $(MAIN_JOB) --grovescale-cluster=kind --grovescale-reports=reports/backends/kind $(ARGS) && \
	  $(BIN)/python $(MAIN_JOB) --grovescale-cluster=kind --grovescale-reports=reports/backends/pod $(ARGS) \
	    --grovescale-operator=reference-pod --grovescale-set=archive=$$GROVESCALE_TEST_OPERATOR_ARCHIVE'
	$(BIN)/grovescale backends local=reports/backends/local/latest kind=reports/backends/kind/latest \
	  "kind, pod=reports/backends/pod/latest" --floor local=reports/backends/local-floor/latest \
	  --floor kind=reports/backends/kind-floor/latest --floor "kind, pod=reports/backends/kind-floor/latest" \
	  --markdown > reports/sample/backends.md

# A Python that this machine lacks is named and left out; uv downloads none.
PYTHONS := 3.11 3.12 3.13
VERSIONS := $(VENV)-versions
test-versions: ## the unit tests on each Python from 3.11 on, and with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VERSIONS)/uv
	$(VERSIONS)/uv/bin/pip --quiet --disable-pip-version-check install uv
	@for python in $(PYTHONS) lowest; do \
	  version=$${python#lowest}; resolution=highest; [ $$python = lowest ] && { version=3.11; resolution=lowest-direct; }; \
	  export VIRTUAL_ENV=$(CURDIR)/$(VERSIONS)/$$python; uv="$(VERSIONS)/uv/bin/uv --quiet --no-python-downloads"; \
	  $$uv venv --seed --clear --python $$version $$VIRTUAL_ENV || { echo "Python $$version is not on this machine: left out"; continue; }; \
	  $$uv pip install --resolution $$resolution --editable . --group dev || exit 1; \
	  echo "unit tests: Python $$version, $$resolution versions"; \
	  $$VIRTUAL_ENV/bin/python -m pytest -q -n 2 -p no:cacheprovider tests/unit $(ARGS) || exit 1; \
	done
	rm -rf $(VERSIONS)

lint: $(READY) ## ruff, mypy strict and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## the figures that docs/evidence.md and reports/bench.json show; takes more than half an hour
	$(BIN)/python -m benchmarks $(ARGS)

DOCS := .venv-docs
$(DOCS)/.ready: requirements-docs.lock pyproject.toml
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/pip --quiet --disable-pip-version-check install --require-hashes -r requirements-docs.lock
	$(DOCS)/bin/pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation --editable .
	@touch $@

docs: $(DOCS)/.ready ## the documentation as a site in docs/_build; a warning is an error
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

LOCKED := --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url
lock: ## write the lock files from pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/pip --quiet install uv
	$(VENV)-lock/bin/uv pip compile $(LOCKED) --group dev --output-file requirements-dev.lock pyproject.toml
	$(VENV)-lock/bin/uv pip compile $(LOCKED) --group docs --constraint requirements-dev.lock \
	  --output-file requirements-docs.lock pyproject.toml
	rm -rf $(VENV)-lock

clean: ## stop what was left running and remove what the targets made, but not the binaries' cache
	@if [ -x $(BIN)/grovescale ]; then $(BIN)/grovescale down --all; $(BIN)/python -m tools.kind down; fi
	rm -rf $(VENV) $(DOCS) docs/_build docs/reference .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
	find benchmarks pytest_grovescale tests tools -name __pycache__ -prune -exec rm -rf {} +
