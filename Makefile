# make run      builds everything and runs the main job       make test      all tests
# make install  PREFIX=/usr/local DESTDIR=                    make lint      formatting, clippy, tidy
# make dev      stages a build without optimisation across crates, in seconds after an edit: for work on Tutti, not for figures
# make bench    measures Tutti                                make compare   measures it beside the others
# make asp          all shortest paths on several hosts, by broadcasts that know hosts, that do not, and by other libraries
# make headlines    the papers' ratios inside Tutti           make consistency   operations against each other
# make starters     other starters than mpirun, for the tests: Slurm, MPICH and Open MPI
# make fuzz         every parser of foreign bytes on random ones, for SECONDS each (60)
# make tsan         programs of several threads on a library with the thread sanitizer
# make miri         layouts, copies, kernels and the engine under Miri (a nightly toolchain; some ten minutes)
# make public       test suites and programs that others wrote: MPICH's suite, mpi4py's demonstrations, rsmpi, NetPIPE, p4est, Valgrind's wrappers, numba-mpi
# make stress       random collectives for SECONDS a run (60), from SEED
# make places     environments and mishaps that users have, and what happens in each; ARGS="-k filter" narrows it

CARGO ?= cargo
PREFIX ?= /usr/local
# What `make compare`, `bench`, `headlines` and `consistency` pass on to tutti: ARGS="--ops bcast --ranks 4".
ARGS ?=
SECONDS ?= 60
SEED ?= 0
STAGE := $(CURDIR)/build/stage

.PHONY: run build stage dev python test test-rust test-loom test-programs test-mpi4py test-hosts lint install stress places tsan miri fuzz bench compare headlines asp consistency public peers starters need clean

run: stage python
	@scripts/run.sh

need:
	@scripts/need.sh build

build: need
	$(CARGO) build --release --workspace --quiet

stage: build
	@scripts/install.sh $(STAGE) > /dev/null

dev: need
	$(CARGO) build --profile fast --workspace --quiet
	@PROFILE=fast scripts/install.sh $(STAGE) > /dev/null

python: stage
	@scripts/need.sh python
	@scripts/python.sh

test: test-rust test-loom test-programs test-mpi4py

test-rust: need
	@scripts/need.sh fabric
	$(CARGO) test --workspace --quiet

test-loom: need
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tutti-transport --release --quiet --target-dir target/loom loom_

test-programs: python starters
	@scripts/need.sh fabric hosts
	build/python/bin/python -m pytest -q tests

# Programs that nobody here wrote: fetched, built unmodified, run, and their results looked at.
public: python
	@scripts/need.sh public
	scripts/public.sh mpich
	build/python/bin/python tests/public_programs.py
	build/python/bin/python tests/mpich_suite.py --random

test-mpi4py: python
	build/python/bin/python tests/mpi4py_suite.py

# What sends much between the hosts of a testbed, and mpi4py on 4 hosts, one rank on each.
test-hosts: python
	@scripts/need.sh fabric hosts
	build/python/bin/python -m pytest -q tests/test_hosts.py tests/test_faults_mpi.py --across
	build/python/bin/python tests/mpi4py_suite.py --hosts 4

stress: python
	build/python/bin/python -m pytest -q tests/test_stress.py --stress-seconds $(SECONDS) --stress-seed $(SEED)

# Environments and mishaps (firewalls, filters, limits, pauses, kills): a table of what happens in each.
places: python
	@scripts/need.sh fabric hosts
	build/python/bin/python tests/places/run.py $(ARGS)

tsan: stage
	@scripts/tsan.sh

miri: need
	@scripts/miri.sh

fuzz: need
	@scripts/fuzz.sh $(SECONDS)

lint: need
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) xtask tidy

install: build
	@scripts/install.sh $(PREFIX)

peers:
	@scripts/need.sh python
	@scripts/peers.sh

starters:
	@scripts/need.sh python starters slurm
	@scripts/peers.sh mpich openmpi

bench: stage
	$(STAGE)/bin/tutti bench $(ARGS)

compare: stage peers
	$(STAGE)/bin/tutti compare $(ARGS)

headlines: stage
	$(STAGE)/bin/tutti headlines $(ARGS)

asp: stage peers
	$(STAGE)/bin/tutti asp $(ARGS)

consistency: stage
	$(STAGE)/bin/tutti consistency $(ARGS)

clean:
	rm -rf build target
