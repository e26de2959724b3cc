"""Cross-entropy with label smoothing, written out and fused, and the sums that a batch yields."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.batches import TARGETS
from regard.data.tokenizer import PADDING
from regard.nn.softmax import log_softmax

NONE_IS_PADDING = -100
"""The padding id of targets that all count, class 0 included."""


def cross_entropy_reference(
    logits: Float[Tensor, "*B C"],
    targets: Int[Tensor, "*B"],
    *,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """−Σ Σ_c q(c) log p(c), summed over the targets that are not padding.

    p = softmax(logits), and q = (1 − ε) · [c = target] + ε/C: the smoothing ε is spread over all C
    classes, the target among them (Szegedy et al. 2016, §7).
    """
    log_p = log_softmax(logits.float())  # *B C
    on_target = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]  # *B
    on_all = log_p.mean(-1)  # *B: Σ_c log p(c) / C
    losses = -(1 - smoothing) * on_target - smoothing * on_all
    return losses.masked_fill(targets == padding, 0.0).sum()


def cross_entropy(
    logits: Float[Tensor, "*B C"],
    targets: Int[Tensor, "*B"],
    *,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """What `cross_entropy_reference` computes, by torch's fused kernel."""
    return F.cross_entropy(
        logits.flatten(0, -2).float(),
        targets.flatten(),
        ignore_index=padding,
        reduction="sum",
        label_smoothing=smoothing,
    )


@dataclass
class Sum:
    """Sums over the targets of one loss, never means: they add up, whatever the batches."""

    loss: Float[Tensor, ""] | float = 0.0
    """Σ loss, smoothing included: what is minimised."""
    count: int = 0
    """How many targets there are."""
    correct: Int[Tensor, ""] | int = 0
    """How many of them have the highest logit."""

    def __add__(self, other: "Sum") -> "Sum":
        """The sums of both, as plain numbers."""
        return Sum(
            _number(self.loss) + _number(other.loss),
            self.count + other.count,
            int(self.correct) + int(other.correct),
        )

    @property
    def mean_loss(self) -> float:
        return _number(self.loss) / max(1, self.count)

    @property
    def accuracy(self) -> float:
        return int(self.correct) / max(1, self.count)


def _number(value: Float[Tensor, ""] | float) -> float:
    return value.item() if isinstance(value, Tensor) else value


class Sums(dict[str, Sum]):
    """The sums of every loss by its name, such as `mlm` and `nsp`; a single loss is `targets`.

    What is minimised is Σ_name (Σ loss_name / Σ count_name): each loss is divided once, by its own
    count, so that a task with few targets per batch weighs as much as one with many.
    """

    @classmethod
    def of(
        cls, loss: Float[Tensor, ""] | float, count: int, correct: Int[Tensor, ""] | int = 0
    ) -> "Sums":
        """The sums of a task that has a single loss."""
        return cls({TARGETS: Sum(loss, count, correct)})

    def __add__(self, other: "Sums") -> "Sums":
        """The sums of both, name by name, as plain numbers."""
        names = dict.fromkeys([*self, *other])
        return Sums({name: self.get(name, Sum()) + other.get(name, Sum()) for name in names})

    def total(self, counts: Mapping[str, int]) -> Float[Tensor, ""]:
        """Σ_name loss_name / counts_name, to be differentiated; counts are those of all batches."""
        terms = [torch.as_tensor(part.loss) / max(1, counts[name]) for name, part in self.items()]
        return sum(terms[1:], start=terms[0])

    @property
    def mean_loss(self) -> float:
        """Σ_name Σ loss_name / Σ count_name: the total that is minimised."""
        return sum((part.mean_loss for part in self.values()), start=0.0)

    @property
    def tokens(self) -> int:
        """How many targets there are, of all losses together."""
        return sum(part.count for part in self.values())

    @property
    def accuracy(self) -> float:
        """The fraction of all targets that have the highest logit."""
        return sum(int(part.correct) for part in self.values()) / max(1, self.tokens)

    def means(self, accuracy: str = "accuracy") -> dict[str, float]:
        """The total `loss`, and the fraction of right answers under the name that is given.

        Where there are several losses, each has its own: `mlm_loss`, `mlm_accuracy`, `nsp_loss`, …
        """
        if len(self) < 2:
            return {"loss": self.mean_loss, accuracy: self.accuracy}
        means = {"loss": self.mean_loss}
        for name, part in self.items():
            means |= {f"{name}_loss": part.mean_loss, f"{name}_accuracy": part.accuracy}
        return means


def token_sums(
    logits: Float[Tensor, "B T V"],
    targets: Int[Tensor, "B T"],
    *,
    tokens: int,
    padding: int,
    smoothing: float = 0.0,
) -> Sums:
    """Loss, count and right answers of one batch with a single loss."""
    correct = count_correct(logits, targets, padding=padding)
    loss = cross_entropy(logits, targets, smoothing=smoothing, padding=padding)
    return Sums.of(loss, tokens, correct)


@torch.no_grad()
def count_correct(
    logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], *, padding: int
) -> Int[Tensor, ""]:
    """How many targets, padding aside, have the highest logit."""
    return (_best_is(logits, targets) & (targets != padding)).sum()


def _best_is(logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Whether the target has the highest logit.

    amax takes a seventh of argmax's time on a CPU; but it cannot break ties, as low precision has.
    """
    if logits.dtype != torch.float32:
        return logits.argmax(-1) == targets
    return logits.gather(-1, targets.clamp(min=0)[..., None])[..., 0] == logits.amax(-1)
