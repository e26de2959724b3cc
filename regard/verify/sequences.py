"""Equalities of models that read one sequence: text encoders, what has one, language models."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import Padded, pad, padded
from regard.data.examples import Ids
from regard.decoding import Hypothesis, Replay, Stepper
from regard.models import (
    GPT,
    BagOfWords,
    Bert,
    Encoded,
    MaskedLanguageModel,
    MaskedLogits,
    RecurrentClassifier,
    RecurrentEncoder,
    RecurrentLanguageModel,
    SpanFinder,
    SpanLogits,
    Tagger,
    TextClassifier,
    TextCNN,
)
from regard.nn import Trace
from regard.nn.cells import CellKind
from regard.nn.pooling import KINDS as POOLINGS
from regard.nn.positions import LearnedPositions
from regard.verify.check import TOLERANCE, Check, largest
from regard.verify.within import (
    GENERATED,
    SOURCES,
    VOCAB,
    Search,
    compare_hypotheses,
    decoders,
    perturbed,
    restored,
)

LanguageModel = GPT | RecurrentLanguageModel
SequenceModel = Any
"""A language model, or what reads a text whole: `model(tokens, lengths, trace=)`."""


def random_sequence_models() -> dict[str, SequenceModel]:
    """Small models of every kind, with weights large enough that their predictions differ."""
    kinds: tuple[CellKind, ...] = ("rnn", "gru", "lstm")
    models: dict[str, Any] = {}
    for kind in kinds:
        for pooling in POOLINGS:
            models[f"RecurrentClassifier ({kind}, {pooling})"] = RecurrentClassifier(
                VOCAB, 3, kind=kind, pooling=pooling, d_model=32, n_layers=2, bidirectional=True
            )
        models[f"RecurrentLanguageModel ({kind})"] = RecurrentLanguageModel(
            VOCAB, kind=kind, d_model=32, n_layers=2
        )
        models[f"RecurrentEncoder ({kind})"] = RecurrentEncoder(
            VOCAB, kind=kind, d_model=32, n_layers=2, bidirectional=True
        )
    sizes: dict[str, Any] = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 64}
    models["Bert"] = Bert(VOCAB, max_length=16, padding=0, **sizes)
    models["Bert (pre-norm, sinusoidal, without segments and pooler)"] = Bert(
        VOCAB,
        norm="pre",
        positions="sinusoidal",
        segments=0,
        embedding_norm=False,
        pooler=False,
        own_init=True,
        **sizes,
    )
    bodies: dict[str, Bert | TextCNN | BagOfWords] = {
        "Bert": Bert(VOCAB, max_length=16, **sizes),
        "TextCNN": TextCNN(VOCAB, d_model=16, filters=8),
        "bag of words and bigrams": BagOfWords(VOCAB, d_model=16, bigrams=32),
    }
    for name, body in bodies.items():
        models[f"TextClassifier ({name})"] = TextClassifier(body, 3)
    models["MaskedLanguageModel"] = MaskedLanguageModel(Bert(VOCAB, max_length=16, **sizes))
    models["Tagger (Bert)"] = Tagger(Bert(VOCAB, max_length=16, **sizes), 3)
    models["SpanFinder (Bert)"] = SpanFinder(Bert(VOCAB, max_length=16, **sizes))
    for positions in ("learned", "rotary"):
        models[f"GPT ({positions})"] = GPT(VOCAB, positions=positions, max_length=16, **sizes)
    return {name: perturbed(model) for name, model in models.items()}


def sequence_checks(
    model: SequenceModel,
    *,
    label: str,
    rows: list[Ids] = SOURCES,
    tolerance: float = TOLERANCE,
) -> Iterator[Check]:
    """Equalities of one model, on a small padded batch."""
    near: dict[str, Callable[[], float]] = {
        "fast = reference": partial(fast_against_reference, model, rows),
        "a batch = its rows one by one": partial(batch_against_rows, model, rows),
        "more padding changes nothing": partial(more_padding, model, rows),
    }
    exact: dict[str, Callable[[], float]] = {
        "saved and loaded = itself": partial(saved_and_loaded, model, rows)
    }
    if isinstance(model, RecurrentLanguageModel):
        near["chunks = the whole"] = partial(in_chunks, model, rows)
    if isinstance(model, LanguageModel):
        exact["the future does not reach the past"] = partial(future_against_past, model, rows)
        rows = _with_room(rows, model.max_length)
        for name, search in decoders().items() if rows else ():
            near[f"{name}, carried state = reading everything again"] = partial(
                search_replayed, search, model, rows
            )
            near[f"{name}, a batch = its rows one by one"] = partial(
                search_one_by_one, search, model, rows
            )
    for name, difference in near.items():
        yield Check(f"{label}: {name}", difference, tolerance)
    for name, difference in exact.items():
        yield Check(f"{label}: {name}", difference, 0.0)


def _with_room(rows: list[Ids], max_length: int | float) -> list[Ids]:
    """As much of the rows as leaves room in the context for what is generated: maybe nothing."""
    most = max_length - GENERATED
    return [row[: int(min(most, len(row)))] for row in rows] if most >= 1 else []


def _outputs(model: SequenceModel, rows: Padded, *, trace: Trace | None = None) -> list[Tensor]:
    """What is compared: what the model gives for each row, and for each real token."""
    real = torch.arange(rows.tokens.size(1)) < rows.lengths[:, None]  # B L
    if isinstance(model, LanguageModel):
        return [_after_each(model, rows.tokens, lengths=rows.lengths, trace=trace)[real]]
    output = model(rows.tokens, rows.lengths, trace=trace)
    if isinstance(output, Encoded):
        return [output.hidden[real], output.summary]
    if isinstance(output, MaskedLogits):
        return [output.words[real], *([] if output.pair is None else [output.pair])]
    if isinstance(output, SpanLogits):
        return [output.start[real], output.end[real]]
    if isinstance(model, Tagger):
        return [output[real]]
    return [output]


def _after_each(model: LanguageModel, tokens: Tensor, **options: Any) -> Tensor:
    """The logits after each token; a GPT needs no lengths."""
    if isinstance(model, GPT):
        return model(tokens, trace=options.get("trace"))
    return model(tokens, **options)[0]


def _pairs(left: list[Tensor], right: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(left, right, strict=True))


@torch.inference_mode()
def fast_against_reference(model: SequenceModel, rows: list[Ids]) -> float:
    """A trace takes the reference path everywhere."""
    batch = padded(rows)
    return largest(_pairs(_outputs(model, batch), _outputs(model, batch, trace=Trace())))


@torch.inference_mode()
def batch_against_rows(model: SequenceModel, rows: list[Ids]) -> float:
    singles = [_outputs(model, padded([row])) for row in rows]
    joined = [torch.cat(parts) for parts in zip(*singles, strict=True)]
    return largest(_pairs(_outputs(model, padded(rows)), joined))


@torch.inference_mode()
def more_padding(model: SequenceModel, rows: list[Ids]) -> float:
    """Two more positions in each row, if it can have them, with any id: they are not real."""
    batch = padded(rows)
    room = _positions(model) - batch.tokens.size(1)
    wide = Padded(F.pad(batch.tokens, (0, int(min(2, room))), value=1), batch.lengths)
    return largest(_pairs(_outputs(model, wide), _outputs(model, batch)))


def _positions(model: SequenceModel) -> int | float:
    """How many tokens a model can read at most."""
    learned = [part for part in model.modules() if isinstance(part, LearnedPositions)]
    most: int | float = getattr(model, "max_length", math.inf)
    return min([most, *(len(part.weight) for part in learned)])


@torch.inference_mode()
def saved_and_loaded(model: SequenceModel, rows: list[Ids]) -> float:
    before = _outputs(model, padded(rows))
    restored(model)
    return largest(_pairs(_outputs(model, padded(rows)), before))


@torch.inference_mode()
def in_chunks(model: RecurrentLanguageModel, rows: list[Ids]) -> float:
    """Two tokens at a time, carrying the state, and all tokens at once."""
    differences = []
    for row in rows:
        whole, state = model(torch.tensor([row]))[0], None
        for begin in range(0, len(row), 2):
            part, state = model(torch.tensor([row[begin : begin + 2]]), state)
            differences.append((part, whole[:, begin : begin + 2]))
    return largest(differences)


@torch.inference_mode()
def future_against_past(model: LanguageModel, rows: list[Ids]) -> float:
    """Another last token changes no logits before it: not by a bit."""
    differences = []
    for row in rows:
        changed = [*row[:-1], 0 if row[-1] != 0 else 1]
        before, after = (_after_each(model, torch.tensor([ids])) for ids in (row, changed))
        differences.append((before[:, :-1], after[:, :-1]))
    return largest(pair for pair in differences if pair[0].numel())


def search_replayed(search: Search, model: LanguageModel, rows: list[Ids]) -> float:
    """Carrying the state, and reading prompt and output again at every step."""

    def logits(prompt: Tensor, target: Tensor, *, source_lengths: Tensor | None) -> Tensor:
        return _after_each(model, torch.cat([prompt, target], dim=1))

    return max(
        compare_hypotheses(_decode(search, model, [row]), _decode(search, Replay(logits), [row]))
        for row in rows
    )


def search_one_by_one(search: Search, model: LanguageModel, rows: list[Ids]) -> float:
    return compare_hypotheses(
        _decode(search, model, rows), [_decode(search, model, [row])[0] for row in rows]
    )


@torch.inference_mode()
def _decode(search: Search, stepper: Stepper, prompts: list[Ids]) -> list[list[Hypothesis]]:
    """The hypotheses after some prompts: the state is of all but their last tokens."""
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts])
    state = stepper.start(pad([prompt[:-1] for prompt in prompts]), lengths)
    return search(stepper, state, torch.tensor([prompt[-1] for prompt in prompts]))
