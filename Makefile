# Everything a newcomer needs: make demo, make test.  Each prepares what is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := build/.installed
AXE := build/axe/axe.min.js

.PHONY: demo axe test test-all coverage lint format docs site bench crash soak clean java

demo: java $(STAMP)
	@$(BIN)/xscl demo

# Tests start many programs, which import what an earlier one has compiled.  Some wait for Java, services and disks, so
# there is one process more than cores.
test: java axe $(STAMP)
	@env -u PYTHONDONTWRITEBYTECODE PYTEST_XDIST_AUTO_NUM_WORKERS=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) $(BIN)/python -m pytest -q --numprocesses auto --dist loadgroup

# The same tests with a hundred times as many random examples, and those that take long.
test-all: java axe $(STAMP)
	@XSCL_TESTS=thorough $(BIN)/python -m pytest -q --numprocesses auto --dist loadgroup

# Statements and branches that the tests run in their own processes; those of services, commands and tasks are not seen.
coverage: java axe $(STAMP)
	@mkdir -p build/coverage
	@$(BIN)/python -m pytest -q --numprocesses auto --dist loadgroup --cov --cov-report=term --cov-report=html:build/coverage/html

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy -p xscl
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint deploy/Dockerfile; fi
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec deploy/compose.yaml

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# The site in build/site, without a warning, and every example of the documentation run.
docs: site java
	@$(BIN)/python -m pytest -q tests/test_docs.py

site: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@$(BIN)/python docs/tools/prose.py

bench: java $(STAMP)
	@$(BIN)/xscl bench all --quick --out build/bench

# Two hundred random crashes and more, some twenty minutes on two cores.
crash: java $(STAMP)
	@PYTHONPATH=tests $(BIN)/python tests/bench/crash.py

soak: $(STAMP)
	@$(BIN)/python tests/bench/soak.py --minutes 30 --out build/soak

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis xscl-home

$(STAMP): pyproject.toml $(VENV)/pyvenv.cfg
	@echo "installing xscl and what it needs into $(VENV) …"
	@mkdir -p $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "xscl needs Python 3.11 or later; this is $$($(PYTHON) --version).  Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Pages are tested with axe-core where a browser is; without npm or the network that test is skipped.
axe:
	@if [ ! -f $(AXE) ] && command -v npm >/dev/null && command -v chromedriver >/dev/null; then \
	 mkdir -p $(dir $(AXE)); \
	 (cd $(dir $(AXE)) && npm pack --silent axe-core@4.14.1 && tar xzf axe-core-*.tgz --strip-components 1 package/axe.min.js \
	 ) >/dev/null 2>&1 || echo "axe-core cannot be fetched; its test is skipped"; fi

java:
	@if [ -n "$$JAVA_HOME" ]; then java="$$JAVA_HOME/bin/java"; else java=java; fi; \
	 major=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	 if [ -z "$$major" ] || [ "$$major" -lt 17 ]; then \
	  echo "xscl runs on Spark, which needs Java 17 or 21; found: $${major:-none}."; \
	  echo "Install it, for example with:"; \
	  echo "  Debian, Ubuntu:  apt install openjdk-17-jre-headless"; \
	  echo "  Fedora:          dnf install java-21-openjdk-headless"; \
	  echo "  macOS:           brew install openjdk@21"; \
	  echo "and put it on the PATH, or set JAVA_HOME."; exit 1; fi
