PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO ?= maze
EXTRAS ?= serve
# The JavaScript checks are skipped where there is no npm.
NODE_MODULES := $(if $(shell command -v npm),node_modules/.package-lock.json)

.PHONY: demo test docs clean

# make demo DEMO=path/to/file.py:demo ARGS='--port 9000' serves something else, elsewhere;
# make demo DEMO=dream EXTRAS=serve,torch what needs another extra.
demo: $(VENV)/.demo-$(EXTRAS)
	$(BIN)/realtime-engine serve $(DEMO) $(ARGS)

test: $(VENV)/.test $(NODE_MODULES)
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

# The documentation site, in site/; any warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/.demo-$(EXTRAS): pyproject.toml constraints.txt
	$(make_venv)
	@echo "Installing what the demo needs; this takes a minute the first time"
	$(PIP_INSTALL) -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	$(make_venv)
	$(PIP_INSTALL) -e '.[serve,torch,dev]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt
	$(make_venv)
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	|| { echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	|| { echo "$(PYTHON) has no venv: install it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
$(PYTHON) -m venv $(VENV)
endef

clean:
	rm -rf $(VENV) node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist site
