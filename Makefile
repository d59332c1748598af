# What a person does with this tree. `make help` lists it; every target does its own set-up first.
# Everything lands in ./.venv (the command is .venv/bin/husk) and ./build; nothing else of the machine is changed,
# except that the tests may install missing guest programs with apt-get when run by root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
# Later arguments for pytest, for example: make test PYTEST_ARGS='tests/unit -k layers'
PYTEST_ARGS ?=
# All tests run in two processes where there are two processors; the first to be done takes tests from the other.
# With PYTEST_ARGS it is one process, because workers take seconds to start. TEST_PROCESSES=2 or TEST_PROCESSES= decides.
TEST_PROCESSES ?= $(if $(strip $(PYTEST_ARGS)),,$(if $(filter-out 1,$(shell nproc)),2))

# A build must not depend on what the caller's shell points Python at.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: help setup run test test-fast test-index skill-score lint command-line-page pictures bench bench-peers bench-scale fuzz fuzz-c soak-store lock wheels sdist deb clean bombs faults races FORCE
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:
	@echo 'make setup              build husk and everything it needs into ./$(VENV); the command is then $(BIN)/husk'
	@echo 'make run                run the bundled example skill in the sandbox and show what it read, wrote and was refused'
	@echo 'make test-fast          units, and a few guests walled and bare: a minute on two idle cores, installs nothing'
	@echo 'make test               run all tests (as root on Debian: installs the guest programs they need)'
	@echo 'make skill-score        precision and recall of husk skill inspect on the labelled skills'
	@echo 'make test-index         install packages for a skill from the real package index and npm registry'
	@echo 'make lint               ruff and mypy --strict'
	@echo 'make command-line-page  write docs/command-line.md anew from the option table'
	@echo 'make pictures           record the terminals of the documentation anew, from real runs'
	@echo 'make bench              measure husk against the host; prints one table, writes bench/results/'
	@echo 'make bench-peers        the same work natively, in husk and in other sandboxes; draws docs/pictures/peers.svg'
	@echo 'make bench-scale        what a call and a box cost as their numbers grow; draws docs/pictures/scale.svg'
	@echo 'make fuzz               random system calls in a box: SEED=1 CALLS=100000 OPTIONS=--no-namespaces'
	@echo 'make fuzz-c             all C that reads what others wrote, under sanitizers: its parts with libFuzzer, then a whole box'
	@echo 'make soak-store         kill husk -9 in ingest, import, commit, gc, apply and kept boxes: ROUNDS=100 times each; long'
	@echo 'make bombs              guests that take all they can get, at full size (up to an hour): BOMBS="sockets threads" for some'
	@echo 'make races              files, directories and links exchanged under a guest, 30 seconds for each kind, mode and user'
	@echo 'make faults             husk on a host that fails it: every call once, and killed at 150 moments; takes two hours'
	@echo 'make wheels             build a wheel for the package index into dist/, try it in clean environments without a compiler'
	@echo 'make sdist              build a source archive into dist/, and install from it in a clean environment'
	@echo 'make deb                build a Debian package into dist/, try it in a fresh Debian: SUITE=bookworm; needs root'
	@echo 'make lock               resolve the newest versions of tools and libraries into requirements/*.lock'
	@echo 'make clean              remove everything the targets above made'

setup: $(VENV)/.installed

run: setup
	@$(BIN)/husk run --summary --mount examples/first-skill:/skill:ro -- /skill/scripts/report.sh

test: setup
	@$(BIN)/python tools/guest_programs.py --install
	$(BIN)/python -m pytest -q $(if $(TEST_PROCESSES),-n $(TEST_PROCESSES) --dist worksteal) $(PYTEST_ARGS)

test-fast: setup
	$(BIN)/python -m pytest -q -m fast tests/unit tests/box tests/escape $(PYTEST_ARGS)

# Asks the package index and the npm registry of this machine, which must be in reach.
test-index: setup
	HUSK_TEST_INDEX=1 $(BIN)/python -m pytest -q tests/skills/test_layers.py -k real

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

# How right `husk skill inspect` is on made-up skills with labels.
skill-score: setup
	@$(BIN)/python tools/skill_score.py

command-line-page: setup
	$(BIN)/python -m husk.cli.options.reference > docs/command-line.md

pictures: setup
	$(BIN)/python tools/record_terminal.py

bench: setup
	@$(BIN)/python tools/guest_programs.py --install --bench
	$(BIN)/python bench/run.py

# As an ordinary user, also when root calls it. For some of it: BENCH_ARGS='--only stat,find --subjects bwrap'
BENCH_ARGS ?=

bench-peers: setup
	@$(BIN)/python tools/guest_programs.py --install --bench
	PYTHONPATH=tools $(BIN)/python bench/peers.py $(BENCH_ARGS)

bench-scale: setup
	PYTHONPATH=tools $(BIN)/python bench/scale.py $(BENCH_ARGS)

SEED ?= 1
CALLS ?= 100000
OPTIONS ?=

fuzz: setup
	$(BIN)/python -m tests.fuzz.run $(SEED) $(CALLS) $(OPTIONS)

# Seconds for each part (as root on Debian clang is installed first); then SEED and CALLS as above.
FUZZ_SECONDS ?= 30

fuzz-c: setup
	$(BIN)/python -m tests.fuzz.libfuzzer $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.sanitized $(SEED) $(CALLS)

ROUNDS ?= 100

# -rP: a test that passes prints how many kills came before and after what it killed took effect.
soak-store: setup
	HUSK_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q -rP -m soak tests/store tests/snapshots tests/images $(PYTEST_ARGS)

bombs: setup
	$(BIN)/python -m tests.bombs.run $(BOMBS)

# Two hours: husk and husk-init killed 150 times, husk stopped over and over, and every single call of a run to the host
# failing once with each errno.
faults: setup
	HUSK_FAULTS=all $(BIN)/python -m pytest -q tests/box/test_faults.py tests/box/test_stopped.py tests/box/test_failing_host.py tests/box/test_failing_commands.py $(PYTEST_ARGS)

# Seconds for each of thirty races. Root tries both columns of the table, if an ordinary user can execute this husk.
RACE_SECONDS ?= 30

races: setup
	HUSK_RACE_SECONDS=$(RACE_SECONDS) $(BIN)/python -m pytest -q tests/escape/test_exchanged.py $(PYTEST_ARGS)

# What people install. The tools of it have an environment of their own; `dist` begins empty of what the target makes.
PACKAGING := build/packaging
RELEASE := PYTHONPATH=tools $(PACKAGING)/bin/python -m

wheels: $(PACKAGING)/.tools
	rm -f dist/*.whl
	$(RELEASE) release.build_dist wheel dist
	$(RELEASE) release.try_install dist/*.whl

sdist: $(PACKAGING)/.tools
	rm -f dist/*.tar.gz
	$(RELEASE) release.build_dist sdist dist
	$(RELEASE) release.try_install dist/*.tar.gz $(PYTHON)

# The release of Debian that the package is for; the machine's own, unless told otherwise.
SUITE ?= $(shell . /etc/os-release && echo $$VERSION_CODENAME)

deb: $(PACKAGING)/.tools
	rm -rf dist/*.deb $(PACKAGING)/wheel
	$(RELEASE) release.build_dist wheel $(PACKAGING)/wheel
	$(RELEASE) release.build_deb $(PACKAGING)/wheel/*.whl dist $(SUITE)
	$(RELEASE) release.try_deb dist/*.deb $(SUITE)

$(PACKAGING)/.tools: requirements/package.lock
	@PYTHON='$(PYTHON)' sh tools/check_host.sh
	$(PYTHON) -m venv --clear $(PACKAGING)
	$(PACKAGING)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/package.lock
	@touch $@

lock: $(VENV)/.tools
	$(BIN)/python tools/lock.py requirements

clean:
	rm -rf $(VENV) build dist bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Stamps, oldest first: the tools (changed by the lock), then husk itself (changed by its sources).

$(VENV)/.tools: $(LOCK)
	@PYTHON='$(PYTHON)' sh tools/check_host.sh
	@# --clear: a lock that no longer names a package must not leave it behind.
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(LOCK)
	@touch $@

# The list of sources is a prerequisite of its own: without it a deleted file would leave the stamp valid.
SOURCES := $(shell find src/husk scripts tools/package_files.py -type f \
	\( -path 'scripts/*' -o -name '*.py' -o -name '*.pyi' -o -name '*.typed' -o -name '*.txt' -o -name '*.toml' -o -name '*.[chS]' -o -path '*/templates/*' -o -name meson.build \) | LC_ALL=C sort)

build/sources.list: FORCE
	@mkdir -p build
	@printf '%s\n' $(SOURCES) | cmp -s - $@ || printf '%s\n' $(SOURCES) > $@

# The build directory is kept, so that ninja rebuilds only what changed. PATH: meson-python looks there for its tools.
$(VENV)/.installed: $(VENV)/.tools build/sources.list pyproject.toml meson.build $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --no-deps --no-index --force-reinstall --config-settings=build-dir=build/meson .
	@touch $@
