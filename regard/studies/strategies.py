"""Every decoding strategy on the same prompts, side by side, and human text beside them."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.config import Decode
from regard.config.strategy import USED_BY
from regard.data.tokenizer import Tokenizer
from regard.decoding import Hypothesis, Reader, TokenProbabilities, before_stop, collect
from regard.decoding.scoring import KeptMass, text_log_probabilities
from regard.metrics.repetition import distinct, repeated
from regard.metrics.self_bleu import self_bleu
from regard.metrics.words import words
from regard.runs.run import Run
from regard.system.errors import UserError
from regard.tasks import Request

COMPARED: dict[str, dict[str, Any]] = {
    "greedy": {"strategy": "greedy"},
    "greedy, repetition penalty 1.3": {"strategy": "greedy", "repetition_penalty": 1.3},
    "greedy, no repeated 3-gram": {"strategy": "greedy", "no_repeat_ngram": 3},
    "contrastive": {"strategy": "contrastive"},
    "beam 4": {"strategy": "beam", "beam": 4},
    "diverse beam 2 × 2": {"strategy": "diverse-beam", "beam": 4, "beam_groups": 2},
    "beam sampling": {"strategy": "beam-sample", "beam": 4},
    "best of 8 samples": {"strategy": "best-of", "best_of": 8},
    "sampling": {"strategy": "sample"},
    "temperature 0.7": {"strategy": "sample", "temperature": 0.7},
    "top-k 40": {"strategy": "sample", "top_k": 40},
    "top-p 0.9": {"strategy": "sample", "top_p": 0.9},
    "min-p 0.05": {"strategy": "sample", "min_p": 0.05},
    "typical 0.9": {"strategy": "sample", "typical": 0.9},
    "epsilon 0.0006": {"strategy": "sample", "epsilon": 6e-4},
    "eta 0.002": {"strategy": "sample", "eta": 2e-3},
    "top-nσ 1": {"strategy": "sample", "top_n_sigma": 1.0},
}
"""What is compared: a name, and the keys of `decode` that are set."""
OUTPUTS = 4
"""Outputs per prompt, where a strategy has several and no other number is given."""
HUMAN_TOKENS = 4_096
"""At most this many tokens of a human text are read."""


@dataclass(frozen=True)
class Measured:
    """What can be said of some texts."""

    name: str
    texts: list[str]
    tokens: int
    log_probability: float
    """The mean of the texts' log-probabilities, by the model and before any filter."""
    perplexity: float
    distinct_1: float
    distinct_2: float
    self_bleu: float | None
    repeated_4grams: float
    probabilities: list[list[float]]
    """Of each token of each text."""
    mass_kept: float | None = None
    """The mean probability of the tokens that were chosen among."""
    seconds_per_token: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_strategies(
    run: Run, prompts: Sequence[str], *, outputs: int | None = None, **decoding: Any
) -> Iterator[Measured]:
    """Each strategy that the model can follow, measured as it is done.

    outputs: how many per prompt, if a strategy has several. decoding: keys that all strategies use.
    """
    for key in decoding:
        if key in ("strategy", *USED_BY) and key != "seed":
            raise UserError(f"{key} belongs to some strategies, and --compare is of all of them.")
    run.decode_options(decoding)  # a wrong value is refused before anything is generated
    own = run.config.decode.model_dump(exclude={"strategy", *USED_BY})
    for name, keys in COMPARED.items():
        if keys["strategy"] == "contrastive" and not isinstance(run.model, Reader):
            continue
        decode = Decode(**own | decoding | keys)
        most = min(OUTPUTS if outputs is None else outputs, decode.most_outputs)
        yield _measured(run, name, Request(prompts, decode.model_copy(update={"n_best": most})))


@torch.inference_mode()
def _measured(run: Run, name: str, request: Request) -> Measured:
    """The outputs of one strategy, all prompts in one batch."""
    generator, text = run.task.generator(run.model, request, run.engine)
    prompts = run.task.prompts(request)
    probabilities, mass = TokenProbabilities(1), KeptMass(request.decode)
    began = time.perf_counter()
    steps = generator.steps(prompts, numbers=range(len(prompts)))
    watched = probabilities.watch(mass.watch(steps))
    found = collect(watched, n_best=request.decode.n_best)
    seconds = time.perf_counter() - began
    hypotheses = [one for of_prompt in probabilities.added_to(found) for one in of_prompt]
    texts = [before_stop(text(one.tokens), request.stop) for one in hypotheses]
    log_p = [_log_probabilities(one) for one in hypotheses]
    return measure(name, texts, log_p, mass_kept=mass.mean, seconds=seconds)


def _log_probabilities(hypothesis: Hypothesis) -> list[float]:
    return [one.log_probability for one in hypothesis.probabilities or ()]


def measure(
    name: str,
    texts: list[str],
    log_p: list[list[float]],
    *,
    mass_kept: float | None = None,
    seconds: float | None = None,
) -> Measured:
    """Texts with the log-probabilities of their tokens, in numbers."""
    in_words = [words(text) for text in texts]
    tokens, total = sum(map(len, log_p)), sum(map(sum, log_p))
    return Measured(
        name,
        texts,
        tokens,
        total / max(1, len(texts)),
        math.exp(min(700.0, -total / max(1, tokens))),
        distinct(in_words, 1),
        distinct(in_words, 2),
        self_bleu(in_words),
        repeated(in_words, 4),
        [[math.exp(value) for value in values] for values in log_p],
        mass_kept,
        None if seconds is None else seconds / max(1, tokens),
    )


@torch.inference_mode()
def measure_human(run: Run, text: str, *, tokens_per_text: int, count: int) -> Measured:
    """The same numbers of a text that a person wrote, in `count` chunks as long as the outputs."""
    if not isinstance(run.model, Reader):
        raise UserError("--data: only a language model says how probable a given text is.")
    end = run.tokenizer.end
    lines = run.tokenizer.encode([line for line in text.splitlines() if line.strip()])
    ids = [token for line in lines for token in (*line, end)]
    ids = ids[: min(HUMAN_TOKENS, tokens_per_text * count)]
    if not ids:
        raise UserError("--data: the file has no text.")
    log_p = text_log_probabilities(run.model, ids, start=end, device=run.engine.device)
    chunks = [
        slice(begin, begin + tokens_per_text) for begin in range(0, len(ids), tokens_per_text)
    ]
    texts = [_in_lines(run.tokenizer, ids[chunk]) for chunk in chunks]
    return measure("human text", texts, [log_p[chunk] for chunk in chunks])


def _in_lines(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of token ids in which the end of a text ends a line."""
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == tokenizer.end:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(map(tokenizer.decode, lines))
