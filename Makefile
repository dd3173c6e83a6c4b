# Everything a fresh machine needs is Python 3.11 to 3.13 with venv, and make.
PYTHON ?= python3
VENV   ?= .venv
# Tests run in as many processes, each of which may take 2.5 GB of memory.
JOBS   ?= 2
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: swap test check clean

## swap: set up, then put one bundled portrait's face on another and say where the result is
swap: $(READY)
	@mkdir -p out
	$(BIN)/mien swap examples/portraits/dev.jpg examples/portraits/ben.jpg -o out/swap.jpg \
	  --consent "Generated portraits: no real person is shown."
	@echo "Look at out/swap.jpg"

## test: set up, then linters, types, import rules and tests
test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(JOBS) --dist loadfile

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

clean:
	rm -rf $(VENV) out build dist
