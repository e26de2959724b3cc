"""SmolLM2-135M-Instruct, as pip installs it: what it says, against llama.cpp on the same file."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.decoding import collect, greedy
from regard.pretrained.sources import PACKAGES
from regard.runs.importing import import_run
from tests.equalities.test_gguf import ODD
from tests.pretrained.llama_cpp import LlamaCpp

PROMPT, STEPS = "Water boils at", 32
ROUNDING = 0.6
"""llama.cpp rounds the inputs of its products to 8 bits: log-probabilities differ by so much."""


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run; of several test processes, the first imports it and the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "popen" in base.name else base) / "smollm2"
    try:
        folder.mkdir()
    except FileExistsError:
        while not (folder / "run").exists():
            time.sleep(0.2)
    else:
        import_run("smollm2", folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def run(smollm2: Path) -> Any:
    return regard.load(smollm2)


@pytest.fixture(scope="session")
def llama() -> LlamaCpp:
    return LlamaCpp(PACKAGES["smollm2"].path())


def test_the_capital_of_france_is_paris(run: Any) -> None:
    (text,) = run.predict(["The capital of France is"], max_new_tokens=4)
    assert text.startswith("The capital of France is Paris.")


def test_its_token_ids_are_those_of_llama_cpp(run: Any, llama: LlamaCpp) -> None:
    assert run.tokenizer.encode(ODD) == [llama.tokenize(text) for text in ODD]


@torch.inference_mode()
def test_its_greedy_text_is_that_of_llama_cpp_or_differs_where_two_tokens_are_close(
    run: Any, llama: LlamaCpp
) -> None:
    (prompt,) = run.tokenizer.encode([PROMPT])
    theirs, likely = llama.greedy(prompt, STEPS)
    state = run.model.start(torch.tensor([prompt[:-1]]))
    steps = greedy(run.model, state, torch.tensor([prompt[-1]]), end=-1, max_new_tokens=STEPS)
    ours = collect(steps)[0][0].tokens
    same = next(
        (n for n, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1), 32
    )
    rows = run.model(torch.tensor([prompt + theirs]))[0].log_softmax(-1)[len(prompt) - 1 :]
    for row, expected in zip(rows, likely, strict=False):
        for token, log_probability in expected.items():
            assert float(row[token]) == pytest.approx(log_probability, abs=ROUNDING)
    if same < STEPS:
        pair = [ours[same], theirs[same]]
        print(
            f"step {same}: {run.tokenizer.tokens(pair)}: ours {rows[same][pair].tolist()}, "
            f"llama.cpp {[likely[same].get(token) for token in pair]}"
        )
        assert float(rows[same][pair[0]] - rows[same][pair[1]]) <= ROUNDING
    assert same >= 8


def test_it_talks_through_its_template(run: Any) -> None:
    from regard.runs.chat import Conversation

    conversation = Conversation(run, max_new_tokens=12)
    answer = "".join(conversation.answer("What is the capital of France?"))
    assert "Paris" in answer
    prompt = run.tokenizer.tokens(conversation.prompt("And of Germany?"))
    assert prompt[:2] == ["<|im_start|>", "system"]
    assert prompt.count("<|im_start|>") == 5
