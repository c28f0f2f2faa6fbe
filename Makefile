# The commands of this checkout. Each makes .venv and installs what it needs by itself, and does so
# again only when pyproject.toml has changed. PYTHON=… picks the interpreter (>= 3.10) that .venv is made with.

.DEFAULT_GOAL := help
# Two of these at once would install into one .venv while the other runs from it.
.NOTPARALLEL:
.PHONY: help demo test test-all test-servers hunt laws check docs pages bench matrix pictures package clean
MAKEFLAGS += --no-print-directory
export PYTHON
# Else each of the thousands of processes that tests start would compile all of lastbeat, and each worker all tests.
export PYTHONDONTWRITEBYTECODE =

# `make test ARGS="-k stale -x"` hands options to pytest; tests/conftest.py says how many processes it runs in.
ARGS ?=
FEW_SERVERS = not store_servers and not slow
# The folders of those tests: in the others each worker would take seconds to find none.
WITH_SERVERS = tests/contract tests/e2e tests/integration

help:
	@echo "make demo    watch three small training runs: one completes, one fails, one is killed"
	@echo "make test    run the tests (ARGS=… goes to pytest)"
	@echo "make test-all run the tests, and those that stand on SeaweedFS, Azurite, a Google Cloud Storage or Ray, too"
	@echo "make test-servers run only those"
	@echo "make hunt    run the tests three times beside 12 busy processes, and list what failed even once"
	@echo "make laws    run the tests of laws on new random examples and far more of them"
	@echo "make check   format, lint, types, import rules, docs"
	@echo "make pages   rewrite the pages of docs/ that are made from the code"
	@echo "make docs    build the site of docs/ into build/site (ARGS=… goes to mkdocs)"
	@echo "make bench   measure requests, start-up and imports; prints the tables of docs/performance*.md"
	@echo "make matrix  let real PyTorch trainings end in twelve ways; prints the tables of docs/training-ends.md"
	@echo "make pictures take the pictures of docs/pictures anew: of the page in Chromium, of the terminal in tmux"
	@echo "make package build the zip that the Lambda function runs, into build/ (ARGS=\"--architecture x86_64\")"
	@echo "make clean   remove .venv and everything else that these commands made"
	@echo
	@echo "PYTHON=…     the interpreter to make .venv with; else the system's, python3, or the newest one from 3.10 on"

demo:
	@.ci/venv demo
	@.venv/bin/python -m demo

test:
	@.ci/venv dev
	.venv/bin/python -m pytest -n auto --dist loadscope -m "$(FEW_SERVERS)" $(ARGS)

# After the others, not among them: a Ray that gets no core for some seconds takes its own nodes for lost.
test-all: test test-servers

test-servers:
	@.ci/venv dev
	.venv/bin/python -m pytest -n auto --dist loadscope -m "store_servers or slow" $(ARGS) $(WITH_SERVERS)

hunt:
	@.ci/venv dev
	.venv/bin/python .ci/hunt.py -m "$(FEW_SERVERS)" $(ARGS)

laws:
	@.ci/venv dev
	.venv/bin/python -m pytest -n auto --dist loadscope --timeout=3600 --hypothesis-profile=hunt tests/unit tests/integration/fleet/test_reliability.py $(ARGS)

check:
	@.ci/venv dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	PYTHONPATH=lambda .venv/bin/lint-imports
	.venv/bin/python -m pytest -q tests/repo

pages:
	@.ci/venv dev
	@PYTHONPATH=core:cli:tests .venv/bin/python -m support.pages

docs:
	@.ci/venv docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --config-file .ci/mkdocs.yml $(ARGS)
	@echo build/site/index.html

bench:
	@.ci/venv dev
	@.venv/bin/python -m bench $(ARGS)

matrix:
	@.ci/matrix $(ARGS)

pictures:
	@.ci/venv dev
	@PYTHONPATH=core:cli:tests .venv/bin/python -m pictures.browser $(ARGS)
	@PYTHONPATH=core:cli:tests .venv/bin/python -m pictures.terminal

package:
	@.ci/venv dev
	@PYTHON=.venv/bin/python infra/package.sh $(ARGS)

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find core cli lambda infra tests bench demo .ci -name __pycache__ -type d -prune -exec rm -rf {} +
