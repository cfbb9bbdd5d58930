# make run      builds everything and runs the main job       make test      all tests
# make install  PREFIX=/usr/local DESTDIR= DEBUG_INFO=1        make lint      formatting, clippy, tidy
# make need     installs the packages that a build needs (Debian, Ubuntu)   make release VERSION=1.0.0   see RELEASING.md
# make quick    lints and tests of what changed, a smoke set of programs: after an edit
# make dev      stages a build without optimisation across crates, in seconds after an edit: for work on Tutti, not for figures
# make install-fortran PREFIX=/usr/local FC=gfortran: the modules mpi and mpi_f08 for a compiler
# make wheel    dist/tutti_mpi-*.whl, for pip; GLIBC=2.28 the oldest C library that it shall run with, ARCH=aarch64 another processor
# make bench    measures Tutti                                make compare   measures it beside the others
# make ab       two builds side by side, cell by cell: the working tree and the last landed commit, or REV=COMMIT; ARGS="--quick"
# make checkpoint   all shortest paths with a mishap: a host is lost, the job goes on from its last checkpoint
# make figures  lists the command of each page of docs/measurements
# make checkpoint-figures   what checkpoints cost, beside what that is held against; ARGS="--only pause"
# make asp          all shortest paths on several hosts, by broadcasts that know hosts, that do not, and by other libraries
# make io         a grid on io-servers of four hosts: written together, read as tiles, copied off, drawn
# make io-hosts   files of io-servers over links of hosts, beside GlusterFS; ARGS="--clients 1,4"
# make headlines    the papers' ratios inside Tutti           make consistency   operations against each other
# make net-figures  collectives between hosts, by multicast and in the kernel: ARGS="s9 --hosts 8"
# make overlap      from sequential C to MPI that hides its communication, on four hosts: a table, time lines
# make starters     other starters than mpirun, for the tests: Slurm, MPICH and Open MPI
# make fuzz         every parser of foreign bytes on random ones, for SECONDS each (60)
# make tsan         programs of several threads on a library with the thread sanitizer
# make miri         layouts, copies, kernels and the engine under Miri (a nightly toolchain; some ten minutes)
# make public       test suites and programs that others wrote: MPICH's suite, mpi4py's demonstrations, rsmpi, NetPIPE, p4est, Valgrind's wrappers, numba-mpi, Debian's LAMMPS, GROMACS, elk, PETSc, ScaLAPACK, HDF5 and Rmpi, and of files ROMIO, IOR, HDF5, PnetCDF, h5py
# make stress       random collectives for SECONDS a run (60), from SEED
# make places     environments and mishaps that users have, and what happens in each; ARGS="-k filter" narrows it

CARGO ?= cargo
PREFIX ?= /usr/local
# What `make compare`, `bench`, `headlines` and `consistency` pass on to tutti: ARGS="--ops bcast --ranks 4".
ARGS ?=
SECONDS ?= 60
SEED ?= 0
STAGE := $(CURDIR)/build/stage
# What `make install` installs; xtask and what only tests need is not built.
INSTALLED := -p tutti-abi -p tutti-launch -p tutti-tools -p tutti-overlap -p tutti-fronts-mpich -p tutti-fronts-openmpi
# Profile of cargo by which is built what `make stage` stages. `make test` takes dev, in which unit tests have compiled all
# crates before; dev also checks assertions and overflows. `make test PROFILE=release` tests what `make install` installs.
PROFILE ?= release
BUILT := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
# Test processes beside each other: half of a test's time is waiting.
WORKERS ?= 3

.PHONY: figures run quick build stage dev python test test-rust test-loom test-programs test-mpi4py test-hosts lint install install-fortran release wheel stress places tsan miri fuzz bench compare ab headlines asp checkpoint checkpoint-figures net-figures overlap consistency public peers starters need clean io io-hosts

run: stage python
	@scripts/run.sh

need:
	@scripts/need.sh build

build: need
	$(CARGO) build --profile $(PROFILE) $(INSTALLED) --quiet

stage: build
	@PROFILE=$(BUILT) scripts/install.sh $(STAGE) > /dev/null

dev: need
	$(CARGO) build --profile fast $(INSTALLED) --quiet
	@PROFILE=fast scripts/install.sh $(STAGE) > /dev/null

python: stage
	@scripts/need.sh python
	@scripts/python.sh

# Says before each stage what it does and how long this and the rest are likely to take; stops at the first that fails.
test: need
	@scripts/test.sh

# Lints and unit tests of what changed, and a smoke set of programs: three minutes. ARGS=REV: changed since that revision.
quick: need
	@scripts/quick.sh $(ARGS)

test-rust: need
	@scripts/need.sh fabric overlap
	$(CARGO) build --workspace --examples --quiet
	$(CARGO) test --workspace --tests --quiet

test-loom: need
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tutti-transport --lib --release --quiet --target-dir target/loom loom_

test-programs: python starters
	@scripts/need.sh fabric hosts overlap
	build/python/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder -m 'not alone' tests
	build/python/bin/python -m pytest -q -m alone tests

# Programs that nobody here wrote: fetched, built unmodified, run, and their results looked at.
public: python
	@scripts/need.sh public overlap
	scripts/public.sh mpich
	build/python/bin/python tests/suites/public_programs.py
	build/python/bin/python tests/suites/mpich_suite.py --random
	build/python/bin/python tests/suites/mpich_suite.py --tune --dirs coll
	build/python/bin/python tests/suites/mpi4py_suite.py --ranks 2,4 --tune
	build/python/bin/python tests/suites/io_suites.py
	build/python/bin/python tests/suites/npb.py
	build/python/bin/python tests/suites/hangs.py
	build/python/bin/python tests/suites/mpich_fortran.py
	scripts/peers.sh mpich openmpi
	for front in mpich openmpi; do build/python/bin/python tests/suites/mpich_suite.py --front $$front || exit 1; done
	for front in mpich openmpi; do build/python/bin/python tests/suites/mpi4py_suite.py --front $$front || exit 1; done
	build/python/bin/python tests/suites/installed_programs.py
	scripts/wheel.sh
	build/python/bin/python tests/suites/older_userland.py
	build/python/bin/python tests/suites/overlap_stencils.py --count 500
	build/python/bin/python tests/suites/overlap_stencils.py --count 100 --mpi mpich
	[ ! -d build/peers/impi ] || build/python/bin/python tests/suites/overlap_stencils.py --count 100 --mpi impi
	build/python/bin/python tests/suites/overlap_loops.py --count 2000
	OVERLAP_FUZZ=100000 $(CARGO) test --release --quiet -p tutti-overlap --test fuzz

test-mpi4py: python
	build/python/bin/python tests/suites/mpi4py_suite.py

# What sends much between the hosts of a testbed, and mpi4py on 4 hosts, one rank on each.
test-hosts: python
	@scripts/need.sh fabric hosts
	build/python/bin/python -m pytest -q tests/cases/test_hosts.py tests/cases/test_faults_mpi.py --across
	build/python/bin/python tests/suites/mpi4py_suite.py --hosts 4

stress: python
	build/python/bin/python -m pytest -q tests/cases/test_stress.py --stress-seconds $(SECONDS) --stress-seed $(SEED)
	CYCLES=20000 TIMES=20000 build/python/bin/python -m pytest -q tests/cases/test_resources.py
	INSTANTS=50 KILLS=60 build/python/bin/python -m pytest -q tests/cases/test_checkpoint.py tests/cases/test_checkpoint_streams.py
	PIECES=1000000 OPERATIONS=200000 build/python/bin/python -m pytest -q tests/cases/test_files_right.py
	PROPTEST_CASES=40000 $(CARGO) test --release --quiet -p tutti-io random_transfers
	KILLS=200 build/python/bin/python -m pytest -q tests/cases/test_io_kills.py

# Environments and mishaps (firewalls, filters, limits, pauses, kills): a table of what happens in each.
places: python
	@scripts/need.sh fabric hosts
	build/python/bin/python tests/cases/places/run.py $(ARGS)

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
	@scripts/deny.sh

# Installs no package of the system: it says which are missing.
install:
	@scripts/need.sh --check build
	$(CARGO) build --profile $(PROFILE) --locked $(INSTALLED)
	@STRIP=1 DEBUG_INFO=$(DEBUG_INFO) scripts/install.sh $(PREFIX)

wheel: need
	@scripts/need.sh python
	@scripts/wheel.sh

# See RELEASING.md.
release:
	@scripts/release.sh "$(VERSION)"

install-fortran:
	@scripts/fortran.sh $(PREFIX)

peers:
	@scripts/need.sh python
	@scripts/peers.sh

starters:
	@scripts/need.sh python starters slurm
	@scripts/peers.sh mpich openmpi

bench: stage
	$(STAGE)/bin/tutti bench --out build/report $(ARGS)

compare: stage peers
	$(STAGE)/bin/tutti compare --out build/report $(ARGS)

# The status of scripts/ab.sh itself tells slower (3) from failed (1).
ab: need
	@scripts/need.sh python hosts
	@REV=$(REV) SUBJECT=$(SUBJECT) scripts/ab.sh $(ARGS)

headlines: stage
	$(STAGE)/bin/tutti dev headlines --out build/report $(ARGS)

checkpoint: python
	@[ -f build/cities.graph ] || build/python/bin/python examples/asp/graph.py build/cities.graph
	build/python/bin/python examples/asp/checkpoint.py $(STAGE) build/cities.graph $(ARGS)

figures:
	@sed -n 's/^| command | \(.*\) |$$/\1/p' $(filter-out %/README.md %/ledger.md,$(wildcard docs/measurements/*.md)) | nl -ba

checkpoint-figures: python
	@scripts/need.sh hosts
	build/python/bin/python tests/figures/checkpoint_figures.py $(ARGS)

net-figures: python
	@scripts/need.sh hosts
	build/python/bin/python tests/figures/net_figures.py $(or $(ARGS),s8)

io: python
	@scripts/need.sh hosts
	build/python/bin/python examples/io/run.py $(STAGE) $(ARGS)

io-hosts: python
	@scripts/need.sh hosts
	build/python/bin/python tests/figures/io_hosts.py $(ARGS)

asp: stage peers
	$(STAGE)/bin/tutti dev asp --out build/report $(ARGS)

# What is hidden behind computation, kernel by kernel: ARGS="--only seidel-2d --hosts 8".
overlap: python
	@scripts/need.sh hosts overlap
	build/python/bin/python tests/figures/overlap_hosts.py $(ARGS)

consistency: stage
	$(STAGE)/bin/tutti dev consistency --out build/report $(ARGS)

clean:
	rm -rf build target
