"""The Transformer of Vaswani et al. 2017: encoder, decoder, embeddings, output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.blueprint import Blueprint
from regard.nn.cache import LayerCache
from regard.nn.embedding import (
    OutputProjection,
    Tying,
    VocabularySide,
    check_tying,
)
from regard.nn.masks import padding_mask
from regard.nn.trace import Trace, at


@dataclass(frozen=True)
class TransformerState:
    """Where decoding stands: the caches of each layer, and which encoder output each row reads.

    Hypotheses of one source stand side by side and share its encoder output, the memory: B rows,
    M memories.
    """

    caches: list[LayerCache]
    memory_mask: Bool[Tensor, "M 1 1 S"] | None
    reads: Int[Tensor, "B"]
    """The memory of each row: every one for B/M rows, one after another."""
    memories: int
    """M."""

    def select(self, rows: Int[Tensor, "N"]) -> "TransformerState":
        """These rows, in this order."""
        reads = self.reads[rows]  # N
        wanted, shares = reads.unique_consecutive(return_counts=True)
        if (shares != shares[0]).any():
            wanted = reads  # not the same number of rows for each: a memory for every row
        unchanged = wanted.equal(torch.arange(self.memories, device=rows.device))
        mask, memory_rows = self.memory_mask, None if unchanged else wanted
        places = torch.arange(len(wanted), device=rows.device)
        return TransformerState(
            [cache.select(rows, memory_rows) for cache in self.caches],
            mask if mask is None or memory_rows is None else mask[memory_rows],
            places.repeat_interleave(len(reads) // len(wanted)),
            len(wanted),
        )


class Transformer(nn.Module):
    """Logits of the next target token, given the source and the target so far.

        source ─ embedding ─ encoder ─────┐ memory
        target ─ embedding ─ decoder ─────┴──── output projection ─ logits

    decoder_layers: layers of the decoder, if different from n_layers. A shallow decoder under a
    deep encoder generates much faster, at little loss (Kasai et al. 2021).

    tie_embeddings: "none"; "output", the output projection is the target embedding; "all", the
    source embedding is the same too, which takes one vocabulary for both.

    padding: the id of padding, whose embedding is zero; None: there is no such id. Lengths, and
    never ids, say what is padding in a batch.

    parts: what its blocks are made of: any field of `Blueprint`, such as d_model=256, n_heads=4 or
    bias=False, which leaves biases out of every part. A window is the decoder's.
    """

    exports: tuple[str, ...] = ("ctranslate2", "onnx")
    """The formats that a model of this kind can be exported to."""
    quantizable = True
    """Its linear maps can be computed in 8 bits."""
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "source_embedding": "read",
        "target_embedding": "generated",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        *,
        n_layers: int = 6,
        decoder_layers: int | None = None,
        final_norm: bool | None = None,
        tie_embeddings: Tying = "none",
        padding: int | None = 0,
        **parts: Any,
    ) -> None:
        super().__init__()
        check_tying(tie_embeddings, src_vocab, tgt_vocab)
        blueprint = Blueprint(**parts)
        self.d_model = blueprint.d_model
        source_tokens = target_tokens = blueprint.tokens(src_vocab, padding=padding)
        if tie_embeddings != "all":
            target_tokens = blueprint.tokens(tgt_vocab, padding=padding)
        self.source_embedding = blueprint.embedding(source_tokens)
        self.target_embedding = blueprint.embedding(target_tokens)
        self.encoder = blueprint.stack(n_layers, final_norm=final_norm)
        self.decoder = blueprint.stack(
            n_layers if decoder_layers is None else decoder_layers,
            cross_attention=True,
            final_norm=final_norm,
            windowed=True,
        )
        self.output = OutputProjection(
            tgt_vocab, self.d_model, tied=None if tie_embeddings == "none" else target_tokens
        )
        self.apply(_initialise)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits at every target position at once, each blind to the positions after it."""
        memory, memory_mask = self.encode(source, source_lengths, trace=trace)
        return self.decode(target, memory, memory_mask=memory_mask, trace=trace)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        source_lengths: Int[Tensor, "B"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"] | None]:
        """The encoder output, and the mask over its padding; lengths None: no padding."""
        mask = None if source_lengths is None else padding_mask(source_lengths, source.size(1))
        embedded = self.source_embedding(source, trace=at(trace, "source_embedding"))
        return self.encoder(embedded, mask=mask, trace=at(trace, "encoder")), mask

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        *,
        memory_mask: Bool[Tensor, "B 1 1 S"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits after each target token.

        Causality hides the target's padding too: it stands at the end, in the future of every real
        token.
        """
        hidden = self.decoder(
            self.target_embedding(target, trace=at(trace, "target_embedding", rows="target")),
            memory,
            is_causal=True,
            memory_mask=memory_mask,
            trace=at(trace, "decoder", rows="target", memory="source"),
        )
        return self.output(hidden, trace=at(trace, "output", rows="target"))

    def start(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, "B"] | None = None
    ) -> TransformerState:
        """Read the source: the state before the first target token."""
        memory, memory_mask = self.encode(source, source_lengths)
        B = source.size(0)
        rows = torch.arange(B, device=source.device)
        return TransformerState(self.decoder.new_caches(memory), memory_mask, rows, B)

    def step(
        self, tokens: Int[Tensor, "B"], state: TransformerState
    ) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """One more target token per row: the logits after it, and the state grown by it."""
        past = state.caches[0].self_attention.length
        positions = torch.arange(past, past + 1, device=tokens.device)[None]  # 1 1
        hidden = self.decoder(
            self.target_embedding(tokens[:, None], positions),
            is_causal=True,
            positions=positions,
            memory_mask=state.memory_mask,
            caches=state.caches,
        )
        return self.output(hidden[:, 0]), state


def _initialise(module: nn.Module) -> None:
    """Glorot's uniform weights and zero biases, as the paper's own code has them."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
