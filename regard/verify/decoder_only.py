"""A small GPT: prompts of different lengths in one batch, cached, against each alone."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from regard.models import GPT
from regard.verify.check import Check, largest

VOCAB, LONGEST = 12, 24
PROMPTS = [[4, 0, 5, 6, 7, 3], [8, 9], [11], [0, 10, 10, 2]]
"""Id 0 is a token like any other here."""
FOLLOWING = torch.tensor([[5, 0, 1, 7], [1, 2, 3, 0], [9, 9, 0, 4], [6, 0, 0, 2]])


def random_decoder(**options: Any) -> GPT:
    """A random model with weights large enough that its predictions differ."""
    torch.manual_seed(4)
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 64, "max_length": LONGEST}
    model = GPT(VOCAB, dropout=0.0, **sizes | options).eval()
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
            f"GPT ({name}): prompts of different lengths in one batch, cached = "
            f"each alone, uncached",
            partial(batch_against_singles, **options),
        )
