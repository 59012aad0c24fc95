
# Copyright (C) mcds authors

# make help tells what there is

BUILD     = build
JOBS     := $(shell nproc 2>/dev/null || echo 2)

# with no NGX_SRC the module is built for the nginx that Debian installs

ifdef NGX_SRC

# make matrix takes several of them

NAME     := $(shell misc/nginx-name $(firstword $(NGX_SRC)))
$(if $(NAME),,$(error there is no source of nginx in "$(NGX_SRC)"))
TREE      = $(NGX_SRC)
FULL      = echo "$(NGX_SRC)"
SO        = $(BUILD)/$(NAME)/ngx_http_mcds_module.so
TOOL      = $(BUILD)/$(NAME)/mcds
UNIT      = $(BUILD)/$(NAME)/unit

# the tests run with that nginx, too

export TEST_NGINX_BINARY ?= $(CURDIR)/$(BUILD)/$(NAME)/src/objs/nginx
BINARY    = binary

else

NAME      = nginx-dev
TREE      = /usr/share/nginx/src
FULL      = misc/nginx-source $(BUILD)/source
SO        = $(BUILD)/ngx_http_mcds_module.so
TOOL      = $(BUILD)/mcds
UNIT      = $(BUILD)/unit

endif

# the longest ones first, so that none of them is alone at the end

LONG      = conf_directives log_slow chaos counter_writeback conf_counter \
            client_reset client_resolve_fail refresh_life log_follow \
            status_many status_prometheus mc_loop lock_faults proto_odd \
            counter_durable_down resource_growth conf_pool conf_visitors \
            replica_counters client_replicas counter_raise
LONGEST   = $(LONG:%=t/%.t)
TESTS     = $(LONGEST) $(filter-out $(LONGEST),$(wildcard t/*.t))
UNITS     = $(patsubst t/unit/%.c,$(UNIT)/%,$(wildcard t/unit/*_test.c))

# make test TESTS="..." builds what these files need, and runs them alone

ifeq ($(origin TESTS),command line)
NEEDED    = $(BINARY) tool
TESTED    = $(TESTS)
else
NEEDED    = $(BINARY) tool unit-build checked
TESTED    = $(TESTS) $(UNITS)
endif

# a test waits three times as long as it computes

PROVE_JOBS = $(shell expr 4 '*' $(JOBS))
PROVE     = prove -j $(PROVE_JOBS) -I t/lib

asan valgrind coverage: PROVE_JOBS = $(JOBS)

# with 64 workers in each nginx

modes: PROVE_JOBS = $(shell expr 2 '*' $(JOBS))

# the fuzzers, and how long each of them runs

FUZZ      = $(patsubst t/fuzz/%_fuzz.c,%,$(wildcard t/fuzz/*_fuzz.c))
FUZZ_SECS = 60

# LEAKS=0 turns off the leak checker of make asan; it must be allowed to
# ptrace()

LEAKS     = 1

# whose nginx and memcached make matrix takes, unless it is told NGX_SRC

SUITES    = bookworm trixie sid

# which processors make foreign takes

ARCH      = i386 arm64

# where make install puts the module, and its manual page

PREFIX    = /usr/local
MODULES   = $(shell misc/nginx-modules)

# what make coverage counts in

COVERED   = $(BUILD)/coverage/src/objs/ngx_http_mcds_module.so

# how long make oracle tries configurations, and what the first of them is

ORACLE_SECS = 600
ORACLE_FROM = 1

# how long make model plays sequences, and what the first of them is

MODEL_SECS = 600
MODEL_FROM = 1

# how many faults make mutants tries at a time

MUTANT_JOBS = 2

# where make mixed finds what it has built

OTHER     = build/ngx_http_mcds_module.so

# nginx's ways to run, for make modes

MODES     = connections nofile daemon single one two many threads reuseport

# how long make chaos breaks things, with how many seeds, and the first of them

CHAOS_SECS = 600
CHAOS_SEEDS = 4
CHAOS_FROM = $(or $(MCDS_SEED),1)

export CC
export TEST_NGINX_MODULE ?= $(CURDIR)/$(SO)
export TEST_MCDS_TOOL ?= $(CURDIR)/$(TOOL)
unexport MAKEFLAGS


.DEFAULT_GOAL := all

.PHONY: tool install-tool browser configured tool-objects checked mutants
.PHONY: all help build binary demo check unit-build unit test test-full asan
.PHONY: mixed valgrind coverage chaos fuzz fuzzers bench clean install man dist
.PHONY: deb deb-test matrix foreign modes oracle model soak recipes
.PHONY: manual-test compose-test source without

all: build


help:
	@echo 'make             install what is missing, build the module for'
	@echo '                 the nginx of Debian:'
	@echo '                 $(BUILD)/ngx_http_mcds_module.so'
	@echo 'make NGX_SRC=DIR build it for the nginx source tree in DIR:'
	@echo '                 $(BUILD)/NAME-VERSION/ngx_http_mcds_module.so'
	@echo '                 (NGX_CONF="..." gives the flags of its configure)'
	@echo 'make tool        the command line tool: $(TOOL)'
	@echo 'make demo        two hosts, one slow backend, and a page to look at'
	@echo '                 (KEEP=60: for 60 s, also without a terminal)'
	@echo 'make test        build, check, unit tests and t/*.t; with NGX_SRC'
	@echo '                 they run with that nginx'
	@echo 'make test-full   the same with the long runs'
	@echo 'make unit        the C unit tests alone'
	@echo 'make check       style, rooms, documentation'
	@echo 'make asan        the tests with a sanitized nginx'
	@echo 'make valgrind    the tests with nginx under valgrind'
	@echo 'make coverage    the tests, and what they have reached of src/'
	@echo 'make mutants     small faults in the code, one at a time, and which'
	@echo '                 test finds which (MUTANTS="name file.c",'
	@echo '                 MUTANTS_REST=0: the near tests only)'
	@echo 'make modes       the tests in each way of nginx to run: no master, 64'
	@echo '                 workers, aio threads, ... (MODES="one many")'
	@echo 'make mixed       two hosts, one of them with another version of mcds:'
	@echo '                 REV="..." of git'
	@echo 'make soak        half an hour of load with faults: memory, times'
	@echo '                 (SOAK_SECS=$(SOAK_SECS))'
	@echo 'make chaos       faults at random for ten minutes, with four seeds;'
	@echo '                 histories are judged (CHAOS_SECS=600,'
	@echo '                 CHAOS_SEEDS=4, MCDS_SEED=n, the first of them)'
	@echo 'make oracle      configurations at random, with and without mcds, for'
	@echo '                 ten minutes (ORACLE_SECS=600, ORACLE_FROM=seed)'
	@echo 'make model       requests at random, their answers judged by a model'
	@echo '                 of RFC 9111, for ten minutes (MODEL_SECS=600,'
	@echo '                 MODEL_FROM=seed)'
	@echo 'make fuzz        the fuzzers, each for a minute (FUZZ_SECS=60)'
	@echo 'make browser     the live page in Chromium, and its pictures in'
	@echo '                 docs/images/'
	@echo 'make recipes     the configurations of docs/recipes/ before the'
	@echo '                 WordPress, MediaWiki and Django of Debian'
	@echo 'make bench       mcds and its peers, side by side'
	@echo 'make matrix      builds, and tests, with the nginx and memcached of'
	@echo '                 three suites of Debian (SUITES="$(SUITES)"),'
	@echo '                 or with the sources in NGX_SRC="DIR DIR ..."'
	@echo 'make without     builds without each feature that can be left out, and'
	@echo '                 without all, with the tests of the others'
	@echo '                 (WITHOUT="lock all", TESTS=none)'
	@echo 'make foreign     builds for other processors: the tests on i386, the'
	@echo '                 unit tests on arm64 (ARCH="$(ARCH)"); as root'
	@echo 'make install     the module into $$(MODULES), its manual page into'
	@echo '                 $$(PREFIX)/share/man, below $$(DESTDIR)'
	@echo 'make install-tool the tool, its manual page and completions, below'
	@echo '                 $$(DESTDIR)$$(PREFIX)'
	@echo 'make deb         packages of Debian: $(BUILD)/deb/*.deb'
	@echo 'make deb-test    tries them as a new user would, in a root of Debian'
	@echo '                 of its own'
	@echo 'make manual-test copies what README.md, docs/start.md and the recipe'
	@echo '                 for WordPress say into a fresh Debian; as root'
	@echo 'make compose-test does the steps of Dockerfile and compose.yaml in'
	@echo '                 roots of Debian, without Docker; as root'
	@echo 'make dist        $(BUILD)/mcds-VERSION.tar.gz'
	@echo 'make clean       remove $(BUILD)/'
	@echo
	@echo 'TESTS="t/a.t t/b.t" chooses test files, and leaves out checks and'
	@echo 'unit tests (make check, make unit), CC=clang the compiler,'
	@echo 'BENCH="..." the arguments of bench/bench.pl.'


configured:
	@misc/install build
	@misc/configure module "$(TREE)" "$(BUILD)/$(NAME)/src"


build: configured
	@misc/make "$(BUILD)/$(NAME)/src" modules $(JOBS)
	@cmp -s "$(BUILD)/$(NAME)/src/objs/ngx_http_mcds_module.so" "$(SO)" \
	    || { cp "$(BUILD)/$(NAME)/src/objs/ngx_http_mcds_module.so" \
	             "$(SO).new" && mv "$(SO).new" "$(SO)"; }
	@echo "mcds: $(SO) is up to date"


binary: build
	@misc/install asan
	@misc/make "$(BUILD)/$(NAME)/src" binary $(JOBS)


# nginx's own source, whole: nginx-dev has only its headers

source:
	@$(if $(NGX_SRC),,misc/install source && )$(FULL) > /dev/null


# the objects of src/ are those of the module, unless it has flags of its own

OF_TOOL   = tree=$$($(FULL)) && $(MAKE) --no-print-directory -j $(JOBS) \
            -f tools/Makefile NGINX="$$tree" \
            HEADERS="$(BUILD)/$(NAME)/src" OUT="$(BUILD)/$(NAME)/tool" \
            PROG="$(TOOL)" \
            ADDON=$(if $(NGX_CONF),,"$(BUILD)/$(NAME)/src/objs/addon")

tool-objects: configured source
	@$(OF_TOOL) objects


tool: build tool-objects
	@test -z "$(MCDS_WITHOUT)" || { \
	    echo "mcds: the tool needs all features, without MCDS_WITHOUT" >&2; \
	    exit 1; }
	@$(OF_TOOL) complete
	@$(OF_TOOL)


demo: build
	@misc/install demo
	demo/demo.pl $(if $(KEEP),--keep $(KEEP))


check:
	@misc/check


# it looks into the objects of the build

checked: build
	@misc/check


unit-build: configured source
	@misc/install test
	@tree=$$($(FULL)) && $(MAKE) --no-print-directory -j $(JOBS) \
	    -f t/unit/Makefile NGINX="$$tree" \
	    HEADERS="$(BUILD)/$(NAME)/src" OUT="$(UNIT)"


unit: unit-build
	$(PROVE) $(UNITS)


# side by side, none of them has work for all processors all the time

test:
	@misc/install build source test
	@$(MAKE) --no-print-directory -j 4 BUILD="$(BUILD)" JOBS="$(JOBS)" \
	    $(NEEDED)
	$(PROVE) $(TESTED)


test-full: export MCDS_FULL = 1

test-full: fuzzers test


asan: tool unit-build
	@misc/install asan
	@tree=$$($(FULL)) && misc/configure asan "$$tree" "$(BUILD)/asan"
	@misc/make "$(BUILD)/asan" binary $(JOBS)
	MCDS_SLOW=3 MCDS_LEAKS=$(LEAKS) \
	    TEST_NGINX_BINARY="$(CURDIR)/$(BUILD)/asan/objs/nginx" \
	    $(PROVE) $(TESTS) $(UNITS)


valgrind: tool
	@misc/install test asan valgrind
	@tree=$$($(FULL)) && misc/configure valgrind "$$tree" "$(BUILD)/valgrind"
	@misc/make "$(BUILD)/valgrind" binary $(JOBS)
	MCDS_SLOW=10 MCDS_VALGRIND=1 \
	    TEST_NGINX_BINARY="$(CURDIR)/$(BUILD)/valgrind/objs/nginx" \
	    $(PROVE) $(TESTS)


modes: tool
	@misc/install test
	@TESTS="$(TESTS)" PROVE="$(PROVE)" misc/modes "$(BUILD)/modes" $(MODES)


coverage: tool
	@misc/install test coverage
	@misc/configure coverage "$(TREE)" "$(BUILD)/coverage/src"
	@misc/make "$(BUILD)/coverage/src" modules $(JOBS)
	@tree=$$($(FULL)) && $(MAKE) --no-print-directory -j $(JOBS) \
	    -f t/unit/Makefile NGINX="$$tree" \
	    HEADERS="$(BUILD)/$(NAME)/src" OUT="$(BUILD)/coverage/unit" \
	    CHECKED="--coverage -O0"
	@misc/coverage forget "$(BUILD)/coverage"
	@rc=0; MCDS_SLOW=2 TEST_NGINX_MODULE="$(CURDIR)/$(COVERED)" \
	    $(PROVE) $(TESTS) $(UNITS:$(UNIT)/%=$(BUILD)/coverage/unit/%) \
	    || rc=$$?; misc/coverage tell "$(BUILD)/coverage" && exit $$rc


# only faults of what the unit tests are linked with need nginx's source

mutants: source
	@misc/install build test
	@tree=$$($(FULL)) && NGX_TREE="$$tree" \
	    misc/mutants "$(BUILD)/mutants" $(MUTANT_JOBS)


mixed: build
	@misc/install test
	@test -n "$(REV)" || { echo "mcds: which version? REV=..." >&2; exit 1; }
	@rm -rf "$(BUILD)/mixed" && mkdir -p "$(BUILD)/mixed"
	@git archive "$(REV)" | tar -x -C "$(BUILD)/mixed"
	@$(MAKE) --no-print-directory -C "$(BUILD)/mixed" build
	MCDS_FULL=1 TEST_NGINX_MODULE_B="$(CURDIR)/$(BUILD)/mixed/$(OTHER)" \
	    $(PROVE) -v t/mixed_versions.t


chaos: build
	@misc/install test
	MCDS_CHAOS=60 prove -v -I t/lib t/chaos.t
	t/jepsen/run $(CHAOS_SECS) $(CHAOS_SEEDS) $(CHAOS_FROM)


oracle: build
	@misc/install test
	ORACLE_SECS=$(ORACLE_SECS) ORACLE_FROM=$(ORACLE_FROM) \
	    prove -v -I t/lib t/oracle.t


model: build
	@misc/install test
	MODEL_SECS=$(MODEL_SECS) MODEL_FROM=$(MODEL_FROM) \
	    prove -v -I t/lib t/model.t


# test-full builds the fuzzers, too: it notices a change of src/ that the
# functions of their own do not follow

fuzzers: build source
	@misc/install test fuzz
	@tree=$$($(FULL)) && $(MAKE) --no-print-directory -j $(JOBS) \
	    -f t/fuzz/Makefile NGINX="$$tree" \
	    HEADERS="$(BUILD)/$(NAME)/src" OUT="$(CURDIR)/$(BUILD)/fuzz"


fuzz: fuzzers
	@t/fuzz/run "$(CURDIR)/$(BUILD)/fuzz" $(FUZZ_SECS) $(FUZZ)


browser: build
	@misc/install browser
	@mkdir -p docs/images
	MCDS_IMAGES=docs/images prove -v -I t/lib t/browser/*.t


# one after the other: each has a database, PHP or Python

recipes: tool
	@misc/install test recipes
	prove -v -I t/lib t/recipes/*.t


# how long two hosts are under load while memcached fails now and then

SOAK_SECS = 1800

soak: build
	@misc/install test
	perl bench/soak.pl $(SOAK_SECS)


bench: build
	@misc/install bench
	bench/bench.pl $(BENCH)


matrix:
	@misc/install build source test matrix
	@TESTS="$(TESTS)" PROVE="$(PROVE)" \
	    misc/matrix "$(BUILD)/matrix" $(or $(NGX_SRC),$(SUITES))


# the features that make without leaves out, one at a time; none: each, and all

WITHOUT   =

without: tool
	@misc/install build test matrix
	@TESTS="$(TESTS)" PROVE="$(PROVE)" \
	    misc/without "$(BUILD)/without" "$(TREE)" $(WITHOUT)


foreign:
	@misc/install build source test foreign
	@JOBS="$(JOBS)" TESTS="$(TESTS)" misc/foreign "$(BUILD)/foreign" $(ARCH)


man:
	@mkdir -p "$(BUILD)"
	@misc/man > "$(BUILD)/ngx_http_mcds_module.7"


install: build man
	install -D -m 644 "$(SO)" \
	    "$(DESTDIR)$(MODULES)/ngx_http_mcds_module.so"
	install -D -m 644 "$(BUILD)/ngx_http_mcds_module.7" \
	    "$(DESTDIR)$(PREFIX)/share/man/man7/ngx_http_mcds_module.7"


install-tool: tool
	install -D -m 755 "$(TOOL)" "$(DESTDIR)$(PREFIX)/bin/mcds"
	install -D -m 644 tools/mcds.1 \
	    "$(DESTDIR)$(PREFIX)/share/man/man1/mcds.1"
	install -D -m 644 tools/completion/mcds.bash \
	    "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/mcds"
	install -D -m 644 tools/completion/mcds.zsh \
	    "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_mcds"


dist:
	@misc/dist "$(BUILD)"


deb:
	@misc/install build deb source
	@tree=$$(misc/nginx-source "$(BUILD)/source") \
	    && misc/deb "$(BUILD)/deb" "$$tree"


deb-test: deb
	@misc/install deb-test
	@misc/package-test "$(BUILD)/deb" "$(BUILD)/deb-test"


# these have the root of Debian in common

manual-test: source
	@misc/install deb-test
	@misc/manual-test "$(BUILD)/deb-test"


compose-test:
	@misc/install deb-test compose-test
	@misc/compose-test "$(BUILD)/deb-test"


clean:
	rm -rf "$(BUILD)"
