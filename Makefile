# `make check` is what a change must pass; `make test` is the README's second command without the set-up.
PYTHON ?= python
FOLDERS = analysis app collectors models parsers samples

.PHONY: check test lint typecheck layers typed-links screens docs man trust peers fuzz fuzz-table fuzz-apart aarch64 dist tag site

check: lint typecheck layers test

test:
	$(PYTHON) -m pytest -n auto

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

# Static tools don't see setuptools' import hook, so they get a folder of links laid out as the package is.
typed-links:
	@mkdir -p build/typed/tracetui
	@for d in $(FOLDERS); do ln -sfn ../../../$$d build/typed/tracetui/$$d; done

typecheck: typed-links
	$(PYTHON) -m mypy

layers:
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo

# Regenerates everything in the documentation that is taken from the program.
docs: screens man
	$(PYTHON) tests/generated_docs.py

# The manual page, from the command line's parser; the wheel installs it.
man:
	$(PYTHON) tests/man_page.py

# Writes the tables of benchmarks/trust.md that say what `tracetui scrub` leaves of what was planted, and what is read of every
# recording; the second takes some minutes and needs the folder of recordings.
trust:
	$(PYTHON) tests/planted.py
	$(PYTHON) tests/read_files.py

# Draws the table of loaders in benchmarks/README.md as a picture beside it.
peers:
	$(PYTHON) benchmarks/picture.py

# Tries COUNT damaged and odd inputs of every format on JOBS processes; finds and summary.json go to build/fuzz.
SEED ?= 1
COUNT ?= 4000
JOBS ?= 1
fuzz:
	PYTHONPATH=tests $(PYTHON) -m fuzz --seed $(SEED) --count $(COUNT) --jobs $(JOBS) --out build/fuzz

# One of many processes that run apart, each with a seed of its own: build/fuzz-SEED has its finds and its summary.
fuzz-apart:
	PYTHONPATH=tests $(PYTHON) -m fuzz --seed $(SEED) --count $(COUNT) --out build/fuzz-$(SEED)

# Writes the fuzzer's table of benchmarks/trust.md from the summary of the last run, or from several:
# make fuzz-table SUMMARIES="build/fuzz-*/summary.json"
SUMMARIES ?= build/fuzz/summary.json
fuzz-table:
	PYTHONPATH=tests $(PYTHON) -m fuzz --table $(SUMMARIES)

# Tries the program as a board runs it, under qemu: by hand and before a release (Debian's apt, network, five minutes).
aarch64:
	$(PYTHON) tests/aarch64.py

# The documentation as a site in build/site, with search; links that lead nowhere end it (needs tracetui[site]).
site:
	rm -rf build/site-docs && mkdir -p build/site-docs
	cp -r README.md CHANGELOG.md CONTRIBUTING.md docs build/site-docs
	cp --parents samples/README.md $$(find benchmarks -name '*.md' -o -name '*.svg') build/site-docs
	$(PYTHON) -m mkdocs build --strict

# Builds what a release consists of into dist/ (needs tracetui[release]); docs/install.md has the rest of the steps.
dist: tag
	rm -rf dist
	$(PYTHON) -m build --outdir dist
	$(PYTHON) -m twine check --strict dist/*

# Whether a release's tag is the version that its files will bear: make tag TAG=v0.1.0
TAG ?= $(shell git describe --tags --exact-match 2>/dev/null)
VERSION = v$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tag:
	@test "$(TAG)" = "$(VERSION)" || { echo "the tag is '$(TAG)', pyproject.toml says $(VERSION)" >&2; exit 1; }

# Writes the recorded screens that the screen tests compare with, and the documentation's page of keys.
screens:
	TRACETUI_WRITE_SCREENS=1 $(PYTHON) -m pytest -q tests/test_tui_screens.py
