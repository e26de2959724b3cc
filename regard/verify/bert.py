"""Bert against Hugging Face's BertModel: one batch of ragged rows, one of them with two texts."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from regard.data.batches import padded
from regard.data.examples import Ids
from regard.data.frame import segments_of
from regard.data.tokenizer import SpecialIds
from regard.models import Bert
from regard.pretrained.names import BERT, Tensors, to_theirs
from regard.system.tensors import weights
from regard.verify.check import Check, largest

SPECIAL = SpecialIds(padding=0, start=2, end=3)
ROWS = [[2, 5, 6, 7, 3, 8, 9, 3], [2, 11, 3], [2, 4, 10, 12, 5, 3], [2, 3, 13, 3]]
VOCAB, LONGEST = 20, 12
SIZES: dict[str, Any] = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48}


def bert_config(**options: Any) -> Any:
    """The configuration of their model."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=SIZES["d_model"],
        num_hidden_layers=SIZES["n_layers"],
        num_attention_heads=SIZES["n_heads"],
        intermediate_size=SIZES["d_ff"],
        max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        **options,
    )


def both(*, fast: bool) -> tuple[Bert, Any]:
    """Our model and theirs, with random weights of ours under their names."""
    from transformers import BertModel

    ours = Bert(VOCAB, max_length=LONGEST, padding=0, dropout=0.0, fast=fast, **SIZES)
    theirs: Any = BertModel(bert_config())
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in ours.parameters():  # including biases and norms, which are 0 or 1
            weight.copy_(0.2 * torch.randn(weight.shape, generator=generator))
    theirs.load_state_dict(_under_their_names(weights(ours)))
    return ours, theirs


def _under_their_names(ours: Tensors) -> Tensors:
    """Weights or gradients of the encoder alone."""
    named = {f"body.{name}": value for name, value in ours.items()}
    theirs = to_theirs(named, BERT, sizes=(SIZES["d_model"],) * 3)
    return {name.removeprefix("bert."): value for name, value in theirs.items()}


def compare_bert(*, fast: bool, rows: list[Ids] = ROWS) -> float:
    """The largest difference of hidden states, pooler and the gradients of all weights."""
    ours, theirs = both(fast=fast)
    tokens, lengths = padded(rows, SPECIAL)
    segments = padded([segments_of(row, SPECIAL) for row in rows], SPECIAL).tokens
    real = torch.arange(tokens.size(1)) < lengths[:, None]  # B L
    hidden, summary = ours(tokens, lengths, segments=segments)
    expected = theirs(input_ids=tokens, attention_mask=real.long(), token_type_ids=segments)
    pairs = [
        (hidden[real], expected.last_hidden_state[real]),
        (summary, expected.pooler_output),
    ]
    noise = torch.randn(pairs[0][0].shape, generator=torch.Generator().manual_seed(7))
    for states, pooled in ((hidden[real], summary), (pairs[0][1], expected.pooler_output)):
        ((states * noise).sum() / len(states) + pooled.sum()).backward()
    gradients = _under_their_names(_gradients(ours)), _gradients(theirs)
    return largest(pairs + [(value, gradients[1][name]) for name, value in gradients[0].items()])


def _gradients(model: nn.Module) -> Tensors:
    """The gradient of every weight; an error if one has none."""
    gradients = {}
    for name, weight in model.named_parameters():
        if weight.grad is None:
            raise ValueError(f"no gradient reached {name}")
        gradients[name] = weight.grad
    return gradients


def bert_checks() -> Iterator[Check]:
    """Both paths; nothing without the package transformers."""
    if find_spec("transformers") is None:
        return
    for fast in (False, True):
        path = "fast" if fast else "reference"
        yield Check(
            f"Bert ({path}) = transformers' BertModel, pooler and gradients",
            partial(compare_bert, fast=fast),
        )
