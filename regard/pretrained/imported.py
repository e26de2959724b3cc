"""Imported: a foreign model as a run holds it."""

import json
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard import config as configuration
from regard.config import Config
from regard.data.tokenizer import Tokenizer
from regard.pretrained.architecture import Architecture
from regard.pretrained.names import Tensors, place_of, to_ours
from regard.system.errors import UserError
from regard.tasks import TASKS
from regard.tasks.lm import LanguageModelling

KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordPiece": "wordpiece", "WordLevel": "words"}
"""The library's models of a tokenizer, and what a configuration calls them."""

TOKENIZER = "tokenizer.json"
"""The file of a run that holds its tokenizer."""

LONGEST = 100_000
"""The most that data.max_length may be: rotary positions have no limit of their own."""


@dataclass(frozen=True)
class Imported:
    """All that a run directory needs."""

    config: Config
    files: dict[str, str]
    """The texts of the files beside the weights, by name."""
    weights: Tensors
    notes: list[str] = field(default_factory=list)
    """Sentences on what is not as it was in the foreign model."""


def run_of(
    architecture: Architecture,
    theirs: Tensors,
    tokenizer: Tokenizer,
    *,
    template: str | None = None,
    where: str,
) -> Imported:
    """A run of the task that a model is for; theirs: its weights under foreign names.

    template: its chat template, if it has one. where: its file or folder, for messages.
    """
    vocab, known = architecture.vocab, len(tokenizer)
    if known > vocab:
        raise UserError(
            f"{where}: its tokenizer has {known:,} tokens, and its model only {vocab:,}: they do "
            f"not belong together."
        )
    config = configuration.validate(
        {
            "task": architecture.task,
            "data": architecture.data | {"max_length": min(architecture.context, LONGEST)},
            "tokenizer": {"kind": kind_of(tokenizer), "vocab_size": known},
            "model": architecture.keys,
        },
        where=where,
    )
    files = {TOKENIZER: tokenizer.json} | architecture.files
    if template is not None:
        files[LanguageModelling.FILES[1]] = template
    try:
        task = TASKS[config.task].open(config, files)
    except ValueError as error:
        raise UserError(f"{where}: {error}.") from None
    with torch.device("meta"):  # shapes alone
        model = task.new_model()
    cut = _cut_to_vocabulary(theirs, architecture, known, where=where)
    weights = to_ours(
        cut, shapes_of(model), architecture.table, where=where, zero=architecture.zero
    )
    notes = []
    if known < vocab:
        notes.append(
            f"{vocab - known:,} of {vocab:,} rows of the embedding belong to no token of the "
            f"tokenizer, and are left out."
        )
    return Imported(config, files, weights, notes)


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shape of every weight, by name."""
    return {name: tuple(weight.shape) for name, weight in model.named_parameters()}


def _cut_to_vocabulary(
    theirs: Tensors, architecture: Architecture, known: int, *, where: str
) -> Tensors:
    """The weights without the rows that belong to no token."""
    cut = dict(theirs)
    for ours in architecture.rows:
        (name,) = place_of(ours, architecture.table).names
        if name not in cut:
            continue
        if len(cut[name]) != architecture.vocab:
            raise UserError(
                f"{where}: {name} has {len(cut[name]):,} rows where its configuration asks for "
                f"{architecture.vocab:,}, one per token."
            )
        cut[name] = cut[name][:known]
    return cut


def kind_of(tokenizer: Tokenizer) -> str:
    """What a configuration calls a tokenizer's kind."""
    content: dict[str, Any] = json.loads(tokenizer.library_json)
    if "ByteLevel" in json.dumps([content.get("pre_tokenizer"), content.get("decoder")]):
        return "bytes"
    return KINDS[content["model"]["type"]]
