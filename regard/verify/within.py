"""Equalities within Regard: fast and reference, batch and single row, cached and uncached."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import pad
from regard.data.examples import Ids
from regard.data.tokenizer import END, PADDING, START
from regard.decoding import Hypothesis, Replay, Stepper, beam_search, collect, greedy
from regard.models import AttentionSeq2Seq, EncoderDecoder, Transformer
from regard.models.blueprint import Positions
from regard.models.seq2seq import AttentionKind
from regard.nn import Trace
from regard.nn.cells import CellKind
from regard.nn.classic_attention import KINDS as ALIGNMENTS
from regard.nn.residual import NormPlace
from regard.system.tensors import read_weights, weights, write_tensors
from regard.verify.check import TOLERANCE, Check, largest

Model = TypeVar("Model", bound=nn.Module)

VOCAB = 12
SOURCES = [[4, 5, 6, 7, END], [8, 9, END], [11, 4, 10, END], [5, END]]
TARGETS = [[START, 5, 6], [START, 4, 4, 9, 7], [START, 10], [START, 8, 8]]


def random_models() -> dict[str, EncoderDecoder]:
    """Small models of every kind, with weights large enough that their predictions differ."""
    norms: tuple[NormPlace, ...] = ("pre", "post")
    position_kinds: tuple[Positions, ...] = ("sinusoidal", "rotary")
    kinds: tuple[CellKind, ...] = ("rnn", "gru", "lstm")
    attentions: tuple[AttentionKind, ...] = ("none", *ALIGNMENTS)
    models: dict[str, EncoderDecoder] = {}
    for norm in norms:
        for positions in position_kinds:
            models[f"Transformer ({norm}-norm, {positions})"] = Transformer(
                VOCAB,
                VOCAB,
                d_model=32,
                n_layers=2,
                n_heads=4,
                d_ff=64,
                norm=norm,
                positions=positions,
                tie_embeddings="all",
            )
    models["Transformer (grouped-query, gated, RMS norm, no biases)"] = Transformer(
        VOCAB,
        VOCAB,
        d_model=32,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        d_head=12,
        d_ff=64,
        positions="rotary",
        norm_kind="rms",
        activation="silu",
        gated=True,
        bias=False,
        tie_embeddings="all",
    )
    models["Transformer (window, norms of queries and keys)"] = Transformer(
        VOCAB,
        VOCAB,
        d_model=32,
        n_layers=2,
        n_heads=4,
        d_ff=64,
        window=2,
        qk_norm=True,
        scaled_embedding=False,
    )
    for kind in kinds:
        for attention in attentions:
            models[f"AttentionSeq2Seq ({kind}, {attention})"] = AttentionSeq2Seq(
                VOCAB, VOCAB, kind=kind, attention=attention, d_model=32, n_layers=2
            )
    return {name: perturbed(model) for name, model in models.items()}


def perturbed(model: Model) -> Model:
    """The same model with random noise added to its weights."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def model_checks(
    model: EncoderDecoder,
    *,
    label: str,
    sources: list[Ids] = SOURCES,
    targets: list[Ids] = TARGETS,
    tolerance: float = TOLERANCE,
) -> Iterator[Check]:
    """Equalities of one model, on a small padded batch."""
    source, target = pad(sources), pad(targets)
    yield Check(
        f"{label}: fast = reference",
        partial(fast_against_reference, model, source, target),
        tolerance,
    )
    yield Check(
        f"{label}: a batch = its rows one by one",
        partial(batch_against_singles, model, sources, targets),
        tolerance,
    )
    yield Check(
        f"{label}: cached = uncached",
        partial(cached_against_uncached, model, source, target),
        tolerance,
    )
    yield Check(
        f"{label}: the future does not reach the past",
        partial(future_against_past, model, source, target),
        tolerance=0.0,
    )
    yield Check(
        f"{label}: more padding changes nothing",
        partial(more_padding, model, source, target),
        tolerance,
    )
    yield Check(
        f"{label}: saved and loaded = itself",
        partial(saved_and_loaded, model, source, target),
        tolerance=0.0,
    )


def _lengths(ids: Tensor) -> Tensor:
    """How many tokens of each row are real, of ids that `pad` padded."""
    return (ids != PADDING).sum(dim=1)


def _logits(
    model: EncoderDecoder, source: Tensor, target: Tensor, *, trace: Trace | None = None
) -> Tensor:
    """The logits after each target token; the lengths of sources follow from their padding."""
    return model(source, target, source_lengths=_lengths(source), trace=trace)


@torch.inference_mode()
def fast_against_reference(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """A trace takes the reference path everywhere."""
    fast = _logits(model, source, target)
    reference = _logits(model, source, target, trace=Trace())
    return largest([(_real(fast, target), _real(reference, target))])


@torch.inference_mode()
def batch_against_singles(model: EncoderDecoder, sources: list[Ids], targets: list[Ids]) -> float:
    together = _logits(model, pad(sources), pad(targets))
    return largest(
        (together[row, : len(target)], model(pad([source]), pad([target]))[0])
        for row, (source, target) in enumerate(zip(sources, targets, strict=True))
    )


@torch.inference_mode()
def cached_against_uncached(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """Token by token with a cache, and the whole target at once without one."""
    at_once = _logits(model, source, target)
    state: Any = model.start(source, _lengths(source))
    stepped = []
    for position in range(target.size(1)):
        logits, state = model.step(target[:, position], state)
        stepped.append(logits)
    return largest([(_real(torch.stack(stepped, dim=1), target), _real(at_once, target))])


@torch.inference_mode()
def future_against_past(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """Another token at position t changes no logit before t: not by a bit."""
    before = _logits(model, source, target)
    differences = []
    for position in range(1, target.size(1)):
        changed = target.clone()
        changed[:, position] = START + END - changed[:, position].clamp(START, END)
        after = _logits(model, source, changed)
        differences.append((after[:, :position], before[:, :position]))
    return largest(differences)


@torch.inference_mode()
def more_padding(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    wide = _logits(model, F.pad(source, (0, 2)), F.pad(target, (0, 1)))[:, : target.size(1)]
    return largest([(_real(wide, target), _real(_logits(model, source, target), target))])


@torch.inference_mode()
def saved_and_loaded(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    before = _logits(model, source, target)
    restored(model)
    return largest([(_logits(model, source, target), before)])


def restored(model: nn.Module) -> None:
    """Write the weights to a file, set them to zero, and read them back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_tensors(path, weights(model))
        for parameter in model.parameters():
            parameter.zero_()
        read_weights(path, model, metadata={})


GENERATED = 8
"""How many tokens are generated to compare two searches."""
TOKENS: dict[str, Any] = {"end": END, "never": (PADDING,)}

Search = Callable[[Stepper, Any, Tensor], list[list[Hypothesis]]]
"""(stepper, state, first token of each row) -> hypotheses."""


def _greedy(stepper: Stepper, state: Any, first: Tensor) -> list[list[Hypothesis]]:
    return collect(greedy(stepper, state, first, max_new_tokens=GENERATED, **TOKENS))


def _beam(stepper: Stepper, state: Any, first: Tensor) -> list[list[Hypothesis]]:
    options = TOKENS | {"beam": 4, "n_best": 4, "max_new_tokens": GENERATED}
    return collect(beam_search(stepper, state, first, **options), n_best=4)


def decoders() -> dict[str, Search]:
    """The decoders by name."""
    return {"greedy": _greedy, "beam 4": _beam}


def decoding_checks(model: EncoderDecoder, *, label: str) -> Iterator[Check]:
    """Decoders with and without a cache, in a batch and alone: equal tokens and scores."""
    for name, search in decoders().items():
        yield Check(
            f"{label}: {name}, cached = uncached",
            partial(search_replayed, search, model),
        )
        yield Check(
            f"{label}: {name}, a batch = its rows one by one",
            partial(search_one_by_one, search, model),
        )


def search_replayed(search: Search, model: EncoderDecoder) -> float:
    """With a cache, and with the whole sequence computed again at every step."""
    return compare_hypotheses(
        _decode(search, model, SOURCES), _decode(search, Replay(model), SOURCES)
    )


def search_one_by_one(search: Search, model: EncoderDecoder) -> float:
    return compare_hypotheses(
        _decode(search, model, SOURCES), [_decode(search, model, [row])[0] for row in SOURCES]
    )


@torch.inference_mode()
def _decode(search: Search, stepper: Stepper, sources: list[Ids]) -> list[list[Hypothesis]]:
    """The hypotheses of some sources."""
    lengths = torch.tensor([len(source) for source in sources])
    state = stepper.start(pad(sources), lengths)
    return search(stepper, state, torch.full((len(sources),), START))


def compare_hypotheses(left: list[list[Hypothesis]], right: list[list[Hypothesis]]) -> float:
    """The largest difference of scores; infinite if the tokens differ."""
    largest_difference = 0.0
    for some, others in zip(left, right, strict=True):
        if [one.tokens for one in some] != [other.tokens for other in others]:
            return float("inf")
        differences = [
            abs(one.score - other.score) for one, other in zip(some, others, strict=True)
        ]
        largest_difference = max([largest_difference, *differences])
    return largest_difference


def _real(logits: Tensor, target: Tensor) -> Tensor:
    """The logits at positions that hold a token."""
    return logits[target != PADDING]
