"""Export to ONNX: a Transformer as two graphs, its encoder and one decoding step."""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.export import Dim

from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.models import Transformer
from regard.models.transformer import TransformerState
from regard.nn import KVCache, LayerCache, LearnedPositions
from regard.system.errors import UserError
from regard.system.optional import needed

EXAMPLE_LENGTH = 3
"""The length of the batch that the graphs are traced with."""

MOST_BYTES_IN_GRAPH = 2**30
"""More bytes of weights are stored in a separate file: the file of a graph can hold 2 GB."""

ENCODER = {
    "inputs": ["source"],
    "outputs": ["memory_keys", "memory_values", "memory_mask"],
}
STEP = {
    "inputs": [
        "tokens",
        "past_keys",
        "past_values",
        "memory_keys",
        "memory_values",
        "memory_mask",
    ],
    "outputs": ["logits", "keys", "values"],
}


class _Joined(KVCache):
    """A cache that concatenates old and new tensors: a graph has no buffer that grows."""

    def append(
        self, key: Float[Tensor, "B H L K"], value: Float[Tensor, "B H L K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        key, value = key.permute(2, 0, 1, 3), value.permute(2, 0, 1, 3)
        self._key = key if self._key is None else torch.cat([self._key, key])
        self._value = value if self._value is None else torch.cat([self._value, value])
        self.length = self._key.size(0)
        return self.key, self.value


class Encode(nn.Module):
    """source (B S) → keys and values of its encoding (N B H S K, N layers), mask (B 1 1 S).

    A source is `x </s>`, and padding after it. Where the vocabulary has no padding, whose id would
    be that of a token, a source is real up to its first `</s>`.
    """

    def __init__(self, model: Transformer, special: SpecialIds) -> None:
        super().__init__()
        self.model = model
        self.special = special

    def forward(
        self, source: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "N B H S K"], Float[Tensor, "N B H S K"], Bool[Tensor, "B 1 1 S"]]:
        memory, mask = self.model.encode(source, self.lengths(source))
        assert mask is not None
        caches = self.model.decoder.new_caches(memory)
        return *_stacked([_memory(cache) for cache in caches]), mask

    def lengths(self, source: Int[Tensor, "B S"]) -> Int[Tensor, "B"]:
        """How many tokens of each row are real."""
        if self.special.padding is not None:
            return (source != self.special.padding).sum(dim=1)
        ends = (source == self.special.end).long()
        return (ends.cumsum(dim=1) - ends == 0).sum(dim=1)  # no end before it


class Step(nn.Module):
    """One more token per row (B) → logits of the next (B V), and keys and values extended by it.

    The past of the first step is empty: N B H 0 K.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Int[Tensor, "B"],
        past_keys: Float[Tensor, "N B H T K"],
        past_values: Float[Tensor, "N B H T K"],
        memory_keys: Float[Tensor, "N B H S K"],
        memory_values: Float[Tensor, "N B H S K"],
        memory_mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "N B H U K"], Float[Tensor, "N B H U K"]]:
        caches = [
            LayerCache(_cache(*past), _cache(*memory))
            for past, memory in zip(
                zip(past_keys, past_values, strict=True),
                zip(memory_keys, memory_values, strict=True),
                strict=True,
            )
        ]
        reads = torch.arange(tokens.size(0), device=tokens.device)
        state = TransformerState(caches, memory_mask, reads, tokens.size(0))
        logits, _ = self.model.step(tokens, state)
        return logits, *_stacked([cache.self_attention for cache in caches])


def _cache(key: Float[Tensor, "B H L K"], value: Float[Tensor, "B H L K"]) -> KVCache:
    cache = _Joined()
    cache.append(key, value)
    return cache


def _memory(cache: LayerCache) -> KVCache:
    assert cache.cross_attention is not None
    return cache.cross_attention


def _stacked(
    caches: list[KVCache],
) -> tuple[Float[Tensor, "N B H L K"], Float[Tensor, "N B H L K"]]:
    return (
        torch.stack([cache.key for cache in caches]),
        torch.stack([cache.value for cache in caches]),
    )


@torch.no_grad()
def export(
    model: nn.Module, tokenizers: tuple[Tokenizer, ...], folder: Path, *, longest: int = 1024
) -> None:
    """Write encoder.onnx, step.onnx, the tokenizers, and model.json, which describes them.

    longest: the longest source and output that the graphs accept.
    """
    for package in ("onnx", "onnxscript"):
        needed(package, extra="export", what="--to onnx")
    if not isinstance(model, Transformer):
        raise UserError("--to onnx is for Transformers; this run's model is recurrent.")
    positions = model.target_embedding.positions
    if isinstance(positions, LearnedPositions):
        longest = min(longest, positions.weight.size(0))
    if longest < EXAMPLE_LENGTH:
        raise UserError(f"--to onnx needs {EXAMPLE_LENGTH} positions, and this run has {longest}.")
    folder.mkdir(parents=True)
    batch, length, past = Dim("batch"), Dim("length", max=longest), Dim("past", max=longest - 1)
    source_ids, target_ids = (tokenizer.special for tokenizer in tokenizers)
    encode, source = Encode(model, source_ids), torch.full((2, EXAMPLE_LENGTH), source_ids.end)
    memory = encode(source)
    # A past of two tokens for the example; as one tensor, both inputs would become one.
    past_keys, past_values = (part[:, :, :, :2].clone() for part in memory[:2])
    _write(
        folder / "encoder.onnx",
        encode,
        inputs=(source,),
        names=ENCODER,
        shapes=({0: batch, 1: length},),
    )
    memory_shape, past_shape = {1: batch, 3: length}, {1: batch, 3: past}
    _write(
        folder / "step.onnx",
        Step(model),
        inputs=(torch.full((2,), target_ids.first), past_keys, past_values, *memory),
        names=STEP,
        shapes=(
            {0: batch},
            past_shape,
            past_shape,
            memory_shape,
            memory_shape,
            {0: batch, 3: length},
        ),
    )
    description = _description(model, source_ids, target_ids, longest=longest)
    (folder / "model.json").write_text(json.dumps(description, indent=2), encoding="utf-8")
    for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        (folder / f"{name}_tokenizer.json").write_text(tokenizer.library_json, encoding="utf-8")


def _description(
    model: Transformer, source_ids: SpecialIds, target_ids: SpecialIds, *, longest: int
) -> dict[str, Any]:
    """What model.json says: names of inputs and outputs, sizes, and special ids."""
    attention = model.decoder.layers[0].self_attention
    return {
        "encoder": ENCODER,
        "step": STEP,
        "layers": len(model.decoder.layers),
        "heads": attention.n_kv_heads,
        "head_width": attention.d_head,
        "longest": longest,
        "padding": source_ids.filler,
        "source_end": source_ids.end,
        "start": target_ids.first,
        "end": target_ids.end,
        "never_generated": list(target_ids.never_generated),
    }


def _write(
    file: Path,
    part: nn.Module,
    *,
    inputs: tuple[Tensor, ...],
    names: dict[str, list[str]],
    shapes: tuple[dict[int, Any], ...],
) -> None:
    size = sum(parameter.nbytes for parameter in part.parameters())
    with _quiet():
        torch.onnx.export(
            part.eval(),
            inputs,
            str(file),
            input_names=names["inputs"],
            output_names=names["outputs"],
            dynamic_shapes=shapes,
            external_data=size > MOST_BYTES_IN_GRAPH,
            dynamo=True,
            verbose=False,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its own code."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
