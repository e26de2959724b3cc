"""Cross-entropy with label smoothing, written out and fused, and the sums that a batch yields."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.masks import PADDING
from regard.nn.softmax import log_softmax

NONE_IS_PADDING = -100
"""Where every target counts, class 0 among them."""


def cross_entropy_reference(
    scores: Float[Tensor, "*B C"],
    targets: Int[Tensor, "*B"],
    *,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """−Σ Σ_c q(c) log p(c), summed over the targets that are not padding.

    p = softmax(scores), and q = (1 − ε) · [c = target] + ε/C: the smoothing ε is spread over all C
    classes, the target among them (Szegedy et al. 2016, §7).
    """
    log_p = log_softmax(scores.float())  # *B C
    on_target = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]  # *B
    on_all = log_p.mean(-1)  # *B: Σ_c log p(c) / C
    losses = -(1 - smoothing) * on_target - smoothing * on_all
    return losses.masked_fill(targets == padding, 0.0).sum()


def cross_entropy(
    scores: Float[Tensor, "*B C"],
    targets: Int[Tensor, "*B"],
    *,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """The same by torch's fused kernel."""
    return F.cross_entropy(
        scores.flatten(0, -2).float(),
        targets.flatten(),
        ignore_index=padding,
        reduction="sum",
        label_smoothing=smoothing,
    )


@dataclass
class Sums:
    """Sums over the targets of a batch, never means: they add up, whatever the batches."""

    loss: Float[Tensor, ""] | float = 0.0
    """Σ loss, smoothing included; what is trained on."""
    tokens: int = 0
    """Targets counted."""
    correct: Int[Tensor, ""] | int = 0
    """Targets whose best-scored token was right."""

    def __add__(self, other: "Sums") -> "Sums":
        """The sums of both, as plain numbers."""
        return Sums(
            float(self.loss) + float(other.loss),
            self.tokens + other.tokens,
            int(self.correct) + int(other.correct),
        )

    @property
    def mean_loss(self) -> float:
        return float(self.loss) / max(1, self.tokens)

    @property
    def accuracy(self) -> float:
        return int(self.correct) / max(1, self.tokens)


def token_sums(
    scores: Float[Tensor, "B T V"],
    targets: Int[Tensor, "B T"],
    *,
    tokens: int,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Sums:
    """Loss, tokens and right answers of one batch."""
    correct = count_correct(scores, targets, padding=padding)
    loss = cross_entropy(scores, targets, smoothing=smoothing, padding=padding)
    return Sums(loss, tokens, correct)


@torch.no_grad()
def count_correct(
    scores: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], *, padding: int = PADDING
) -> Int[Tensor, ""]:
    """Targets, padding aside, whose score is the highest."""
    return (_best_is(scores, targets) & (targets != padding)).sum()


def _best_is(scores: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Whether the target has the highest score.

    amax takes a seventh of argmax's time on a CPU; but it cannot break ties, as low precision has.
    """
    if scores.dtype != torch.float32:
        return scores.argmax(-1) == targets
    return scores.gather(-1, targets.clamp(min=0)[..., None])[..., 0] == scores.amax(-1)
