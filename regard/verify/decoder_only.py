"""A small decoder-only model built of the parts: prompts of different lengths in one batch."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.blueprint import Positions
from regard.nn import (
    Block,
    Context,
    Embedding,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    OutputProjection,
    Residual,
    RotaryPositions,
    SelfAttention,
    SinusoidalPositions,
    Stack,
    TokenEmbedding,
)
from regard.verify.check import Check, largest

VOCAB, D_MODEL, HEADS, LAYERS, LONGEST = 12, 32, 4, 2, 24
PROMPTS = [[4, 0, 5, 6, 7, 3], [8, 9], [11], [0, 10, 10, 2]]
"""Id 0 is a token like any other here."""
FOLLOWING = torch.tensor([[5, 0, 1, 7], [1, 2, 3, 0], [9, 9, 0, 4], [6, 0, 0, 2]])


class DecoderOnly(nn.Module):
    """Logits of the next token of each row, given the row so far."""

    def __init__(self, *, positions: Positions = "learned", **attention: Any) -> None:
        super().__init__()
        added: dict[str, Any] = {
            "learned": lambda: LearnedPositions(D_MODEL, length=LONGEST),
            "sinusoidal": lambda: SinusoidalPositions(D_MODEL),
        }
        rotary = RotaryPositions(D_MODEL // HEADS) if positions == "rotary" else None
        tokens = TokenEmbedding(VOCAB, D_MODEL, padding=None)
        self.embedding = Embedding(tokens, added.get(positions, lambda: None)(), dropout=0.0)
        self.stack = Stack(
            Block(
                self_attention=SelfAttention(D_MODEL, HEADS, rotary=rotary, **attention),
                feed_forward=FeedForward(D_MODEL, 2 * D_MODEL),
                residual=lambda: Residual(LayerNorm(D_MODEL), dropout=0.0),
            )
            for _ in range(LAYERS)
        )
        self.output = OutputProjection(VOCAB, D_MODEL, tied=tokens)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        """Padding on the right needs no mask: it is in the future of every real token."""
        return self.output(self.stack(self.embedding(tokens), is_causal=True))

    def start(self, prompt: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None) -> Context:
        """Read the prompts, padded on the right."""
        caches = self.stack.new_caches()
        self.stack(self.embedding(prompt), is_causal=True, caches=caches)
        return Context.of_prompt(caches, prompt, lengths)

    def step(
        self, tokens: Int[Tensor, "B"], state: Context
    ) -> tuple[Float[Tensor, "B V"], Context]:
        """One more token per row: the logits after it."""
        positions, grown = state.positions, state.grown()
        hidden = self.stack(
            self.embedding(tokens[:, None], positions),
            mask=grown.mask,
            is_causal=True,
            positions=positions,
            caches=grown.caches,
        )
        return self.output(hidden[:, 0]), grown


def random_decoder(**options: Any) -> DecoderOnly:
    """A random model with weights large enough that its predictions differ."""
    torch.manual_seed(4)
    model = DecoderOnly(**options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@torch.inference_mode()
def batch_against_singles(prompts: list[list[int]] = PROMPTS, **options: Any) -> float:
    """Prompts of different lengths continued in one batch, and each computed alone, uncached."""
    model, following = random_decoder(**options), FOLLOWING[: len(prompts)]
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    padded = torch.full((len(prompts), int(lengths.max())), 1)  # any id will do for padding
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = torch.tensor(prompt)
    state = model.start(padded, lengths)
    stepped = []
    for tokens in following.unbind(dim=1):
        logits, state = model.step(tokens, state)
        stepped.append(logits)
    together = torch.stack(stepped, dim=1)  # B T V
    return largest(
        (together[row], model(torch.tensor([prompt + following[row].tolist()]))[0, len(prompt) :])
        for row, prompt in enumerate(prompts)
    )


OPTIONS: dict[str, dict[str, Any]] = {
    "learned": {"positions": "learned"},
    "sinusoidal": {"positions": "sinusoidal"},
    "rotary": {"positions": "rotary"},
    "grouped-query": {"positions": "rotary", "n_kv_heads": 2},
    "window": {"positions": "rotary", "window": 3},
    "grouped-query, window, reference": {
        "positions": "learned",
        "n_kv_heads": 1,
        "window": 2,
        "fast": False,
    },
}


def decoder_only_checks() -> Iterator[Check]:
    """Every kind of positions, grouped-query attention, and a window."""
    for name, options in OPTIONS.items():
        yield Check(
            f"DecoderOnly ({name}): prompts of different lengths in one batch, cached = "
            f"each alone, uncached",
            partial(batch_against_singles, **options),
        )
