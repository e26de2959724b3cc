"""What must be equal within Regard: fast and reference, batch and single, cached and uncached."""

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
from regard.decoding import Hypothesis, Replay, Stepper, beam_search, greedy
from regard.models import AttentionSeq2Seq, EncoderDecoder, Transformer
from regard.models.seq2seq import AttentionKind
from regard.models.transformer import Positions
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
    places: tuple[Positions, ...] = ("sinusoidal", "rotary")
    kinds: tuple[CellKind, ...] = ("rnn", "gru", "lstm")
    attentions: tuple[AttentionKind, ...] = ("none", *ALIGNMENTS)
    found: dict[str, EncoderDecoder] = {}
    for norm in norms:
        for positions in places:
            found[f"Transformer ({norm}-norm, {positions})"] = Transformer(
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
    for kind in kinds:
        for attention in attentions:
            found[f"AttentionSeq2Seq ({kind}, {attention})"] = AttentionSeq2Seq(
                VOCAB, VOCAB, kind=kind, attention=attention, d_model=32, n_layers=2
            )
    return {name: shaken(model) for name, model in found.items()}


def shaken(model: Model) -> Model:
    """The same model with larger weights."""
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


@torch.inference_mode()
def fast_against_reference(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """A trace takes the reference path everywhere."""
    lengths = _lengths(source)
    fast = model(source, target, source_lengths=lengths)
    reference = model(source, target, source_lengths=lengths, trace=Trace())
    return largest([(_real(fast, target), _real(reference, target))])


@torch.inference_mode()
def batch_against_singles(model: EncoderDecoder, sources: list[Ids], targets: list[Ids]) -> float:
    source = pad(sources)
    together = model(source, pad(targets), source_lengths=_lengths(source))
    return largest(
        (together[row, : len(target)], model(pad([source]), pad([target]))[0])
        for row, (source, target) in enumerate(zip(sources, targets, strict=True))
    )


@torch.inference_mode()
def cached_against_uncached(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """Token by token with a cache, and all at once without."""
    at_once = model(source, target, source_lengths=_lengths(source))
    state: Any = model.start(source, _lengths(source))
    stepped = []
    for position in range(target.size(1)):
        scores, state = model.step(target[:, position], state)
        stepped.append(scores)
    return largest([(_real(torch.stack(stepped, dim=1), target), _real(at_once, target))])


@torch.inference_mode()
def future_against_past(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    """Another token at position t changes no score before t: not by a bit."""
    lengths = _lengths(source)
    before = model(source, target, source_lengths=lengths)
    differences = []
    for position in range(1, target.size(1)):
        changed = target.clone()
        changed[:, position] = START + END - changed[:, position].clamp(START, END)
        after = model(source, changed, source_lengths=lengths)
        differences.append((after[:, :position], before[:, :position]))
    return largest(differences)


@torch.inference_mode()
def more_padding(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    wide = F.pad(source, (0, 2)), F.pad(target, (0, 1))
    lengths = _lengths(source)
    scores = model(*wide, source_lengths=lengths)[:, : target.size(1)]
    narrow = model(source, target, source_lengths=lengths)
    return largest([(_real(scores, target), _real(narrow, target))])


@torch.inference_mode()
def saved_and_loaded(model: EncoderDecoder, source: Tensor, target: Tensor) -> float:
    lengths = _lengths(source)
    before = model(source, target, source_lengths=lengths)
    restored(model)
    return largest([(model(source, target, source_lengths=lengths), before)])


def _lengths(source: Tensor) -> Tensor:
    """How many tokens of each row are real, of ids that `pad` filled up."""
    return (source != PADDING).sum(dim=1)


class WithLengths:
    """A stepper that is given padded sources, and tells the model how long they are."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.step = model.step

    def start(self, source: Tensor) -> Any:
        return self.model.start(source, _lengths(source))

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(source, target, source_lengths=_lengths(source))


def restored(model: nn.Module) -> None:
    """Write the weights to a file, set them to zero, and read them back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_tensors(path, weights(model))
        for parameter in model.parameters():
            parameter.zero_()
        read_weights(path, model, metadata={})


TOKENS: dict[str, Any] = {"start": START, "end": END, "never": (PADDING,)}

Search = Callable[[Stepper, Tensor], list[list[Hypothesis]]]


def _greedy(stepper: Stepper, source: Tensor) -> list[list[Hypothesis]]:
    return [[one] for one in greedy(stepper, source, max_new_tokens=8, **TOKENS)]


def _beam(stepper: Stepper, source: Tensor) -> list[list[Hypothesis]]:
    return beam_search(stepper, source, max_new_tokens=8, beam=4, n_best=4, **TOKENS)


def decoders() -> dict[str, Search]:
    """The decoders by name."""
    return {"greedy": _greedy, "beam 4": _beam}


def decoding_checks(model: EncoderDecoder, *, label: str) -> Iterator[Check]:
    """Decoders with and without a cache, in a batch and alone: the same tokens and scores."""
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
    """With the cache, and computing the whole sequence again at every step."""
    reader = WithLengths(model)
    return hypotheses(search(reader, pad(SOURCES)), search(Replay(reader), pad(SOURCES)))


def search_one_by_one(search: Search, model: EncoderDecoder) -> float:
    return hypotheses(
        search(WithLengths(model), pad(SOURCES)),
        [search(model, pad([row]))[0] for row in SOURCES],
    )


def hypotheses(some: list[list[Hypothesis]], others: list[list[Hypothesis]]) -> float:
    """The largest difference in scores; infinite if the tokens differ."""
    worst = 0.0
    for found, expected in zip(some, others, strict=True):
        if [one.tokens for one in found] != [one.tokens for one in expected]:
            return float("inf")
        pairs = zip(found, expected, strict=True)
        worst = max([worst, *(abs(one.score - other.score) for one, other in pairs)])
    return worst


def _real(scores: Tensor, target: Tensor) -> Tensor:
    """The scores at positions that hold a token."""
    return scores[target != 0]
