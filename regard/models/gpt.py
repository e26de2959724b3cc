"""GPT: a stack of blocks that reads a text from left to right and predicts each next token."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.models.blueprint import Blueprint
from regard.models.initial import INITIAL_STD, initialise
from regard.nn.block import Block
from regard.nn.context import Context
from regard.nn.embedding import OutputProjection, VocabularySide
from regard.nn.masks import document_mask
from regard.nn.positions import document_positions
from regard.nn.trace import Trace, at

GPT2: dict[str, Any] = {
    "positions": "learned",
    "activation": "gelu-tanh",
    "scaled_embedding": False,
    "max_length": 1024,
}
"""What GPT-2's blocks are made of, where a `Blueprint` has another default."""


class GPT(nn.Module):
    """Logits of the next token after each token of a text (Radford et al. 2018, 2019).

        tokens ─ embedding ─ blocks, each blind to what comes later ─ norm ─ output ─ logits

    parts: what its blocks are made of: any field of `Blueprint`; the defaults are GPT-2's. The
    Llama family is the same model with other parts: positions="rotary", norm_kind="rms",
    activation="silu", gated=True, bias=False, n_kv_heads=….

    tied: the output projection is the token embedding. zero_init: the last projection of every
    sub-layer begins with zeros, so that each block begins as the identity. padding: the id of
    padding, whose embedding is zero; None: every id is a token.
    """

    exports: tuple[str, ...] = ("hf",)
    quantizable = True
    can_go_back = True
    """Its state can be cut back to fewer tokens."""
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "embedding": "read",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self,
        vocab: int,
        *,
        n_layers: int = 12,
        tied: bool = True,
        zero_init: bool = False,
        padding: int | None = None,
        **parts: Any,
    ) -> None:
        super().__init__()
        blueprint = Blueprint(**GPT2 | parts)
        self.d_model = blueprint.d_model
        self.max_length = blueprint.max_length
        """Its context: how many tokens it can look back at, the last one included."""
        tokens = blueprint.tokens(vocab, padding=padding)
        self.embedding = blueprint.embedding(tokens)
        self.decoder = blueprint.stack(n_layers, windowed=True)
        self.output = OutputProjection(vocab, self.d_model, tied=tokens if tied else None)
        self.apply(initialise)
        for block in self.decoder.layers:
            _shrink_residuals(block, 0.0 if zero_init else INITIAL_STD / math.sqrt(2 * n_layers))

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        *,
        documents: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B L V"]:
        """The logits after each token.

        Padding on the right needs no mask: it stands in the future of every real token.
        documents: a number per document of each row; a token looks at those of its own document,
        whose positions begin with 0. None: each row is one document.
        """
        positions = None if documents is None else document_positions(documents)
        embedded = self.embedding(tokens, positions, trace=at(trace, "embedding", rows="target"))
        hidden = self.decoder(
            embedded,
            mask=None if documents is None else document_mask(documents),
            is_causal=True,
            positions=positions,
            trace=at(trace, "decoder", rows="target"),
        )
        return self.output(hidden, trace=at(trace, "output", rows="target"))

    def start(self, prompt: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None) -> Context:
        """The state after each row's prompt, padded on the right, which may be empty.

        To generate after a prompt, start with all of it but its last token, and step with that.
        """
        caches = self.decoder.new_caches()
        if prompt.size(1):
            self.decoder(self.embedding(prompt), is_causal=True, caches=caches)
        return Context.of_prompt(caches, prompt, lengths)

    def read(
        self,
        tokens: Int[Tensor, "B L"],
        state: Context,
        lengths: Int[Tensor, "B"] | None = None,
    ) -> tuple[Float[Tensor, "B L D"], Context]:
        """Read more tokens in each row: the last hidden state after each, and the next state.

        lengths: how many tokens of each row are real, the first ones; None: all. A row that has not
        enough room in the context goes on after the last half of it.
        """
        if state.slots + tokens.size(1) > self.max_length:
            state = self._with_room(state, tokens.size(1) if lengths is None else lengths)
        positions, grown = state.positions(tokens.size(1), lengths), state.grown(tokens, lengths)
        hidden = self.decoder(
            self.embedding(tokens, positions),
            mask=grown.mask,
            is_causal=True,
            positions=positions,
            caches=grown.caches,
        )
        return hidden, grown

    def step(
        self, tokens: Int[Tensor, "B"], state: Context
    ) -> tuple[Float[Tensor, "B V"], Context]:
        """Read one more token in each row: the logits of the one after it, and the next state."""
        hidden, grown = self.read(tokens[:, None], state)
        return self.output(hidden[:, 0]), grown

    def _with_room(self, state: Context, new: int | Int[Tensor, "B"]) -> Context:
        """The state in which every row without room for `new` tokens has kept half of the context.

        The last half is read again, as a prompt: once in max_length / 2 tokens. What a row keeps
        depends on its own length, and not on the rows beside it.
        """
        reading = torch.as_tensor(new, device=state.lengths.device)
        full = (state.lengths + reading > self.max_length) & (reading > 0)
        if not full.any():
            return state
        half = self.max_length // 2
        rows = [
            row[len(row) - half :] if is_full else row
            for row, is_full in zip(state.rows(), full.tolist(), strict=True)
        ]
        lengths = torch.tensor([len(row) for row in rows], device=state.lengths.device)
        return self.start(pad_sequence(rows, batch_first=True), lengths)


def _shrink_residuals(block: Block, std: float) -> None:
    """÷ √(2N): the 2N sums of N layers keep the size of their input (Radford et al. 2019, §2.3)."""
    for linear in (block.self_attention.output, block.feed_forward.outer):
        nn.init.normal_(linear.weight, std=std)
