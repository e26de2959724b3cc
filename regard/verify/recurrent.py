"""Recurrent cells and layers against torch.nn's, with the same weights: outputs and gradients."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn import Cell, Recurrent
from regard.nn.cells import CellKind, Nonlinearity
from regard.nn.recurrent import FAST
from regard.verify.check import Check, largest_with_gradients
from regard.verify.same_weights import D_MODEL, LAYERS, copied, sequences

CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
KINDS: tuple[CellKind, ...] = ("rnn", "gru", "lstm")
NONLINEARITIES: tuple[Nonlinearity, ...] = ("tanh", "relu")


def compare_cell(kind: CellKind, nonlinearity: Nonlinearity) -> float:
    """One step, from a state that is not zero."""
    source, target, _, _ = sequences()
    options = {"nonlinearity": nonlinearity} if kind == "rnn" else {}
    ours = Cell(kind, D_MODEL, D_MODEL, nonlinearity=nonlinearity)
    theirs = CELLS[kind](D_MODEL, D_MODEL, **options)

    def by_torch(x: list[Tensor]) -> Tensor:
        state = theirs(x[0], (x[1], x[2]) if kind == "lstm" else x[1])
        return torch.cat(state if kind == "lstm" else (state,), dim=-1)

    return largest_with_gradients(
        lambda x: torch.cat(ours(x[0], tuple(x[1:])), dim=-1),
        by_torch,
        [source[:, 0], target[:, 0], target[:, 1]][: 3 if kind == "lstm" else 2],
        copied(list(zip(ours.parameters(), theirs.parameters(), strict=True))),
    )


def compare_recurrent(kind: CellKind, *, fast: bool) -> float:
    """Layers in both directions over rows of unequal length, packed for torch's."""
    source, _, real, _ = sequences()
    lengths = real.sum(dim=1)
    ours = Recurrent(kind, D_MODEL, D_MODEL, n_layers=LAYERS, bidirectional=True, fast=fast)
    theirs = FAST[kind](D_MODEL, D_MODEL, LAYERS, batch_first=True, bidirectional=True)

    def by_torch(x: list[Tensor]) -> Tensor:
        packed = pack_padded_sequence(x[0], lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]

    return largest_with_gradients(
        lambda x: ours(x[0], lengths)[0],
        by_torch,
        [source],
        copied(list(zip(ours.parameters(), theirs.parameters(), strict=True))),
    )


def recurrent_checks() -> Iterator[Check]:
    """Every cell for one step, and layers of it by both paths."""
    for kind in KINDS:
        for nonlinearity in NONLINEARITIES[: 2 if kind == "rnn" else 1]:
            variant = f"Cell ({kind}, {nonlinearity})" if kind == "rnn" else f"Cell ({kind})"
            yield Check(
                f"{variant} = torch.nn.{CELLS[kind].__name__}, and gradients",
                partial(compare_cell, kind, nonlinearity),
            )
        for path in ("reference", "fast"):
            yield Check(
                f"Recurrent ({kind}, {path}) = torch.nn.{FAST[kind].__name__}, and gradients",
                partial(compare_recurrent, kind, fast=path == "fast"),
            )
