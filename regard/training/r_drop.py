"""R-Drop: a batch is read twice, each time with another dropout, and both readings must agree."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.nn.masks import PADDING
from regard.training.loss import cross_entropy

ROWS = 32
"""Positions that a CPU goes through at a time, so that their numbers stay in its caches."""


def disagreement(
    scores: Float[Tensor, "*B C"], others: Float[Tensor, "*B C"], *, counted: Bool[Tensor, "*B"]
) -> Float[Tensor, ""]:
    """½ Σ [KL(p‖q) + KL(q‖p)] = ½ Σ Σ_c (p(c) − q(c)) · (log p(c) − log q(c)), where counted."""
    log_p = scores[counted].float().log_softmax(-1)
    log_q = others[counted].float().log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


def r_drop_reference(
    scores: Float[Tensor, "R T V"],
    targets: Int[Tensor, "B T"],
    *,
    alpha: float,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """½ Σ [H(y, p) + H(y, q) + α · ½ (KL(p‖q) + KL(q‖p))] over the targets that are not padding.

    p and q are the softmax of both readings, the first half of the rows and the second, and H is
    the cross-entropy with the smoothed target y (Liang et al. 2021, §2).
    """
    first, second = scores.chunk(2)
    one, other = (
        cross_entropy(read, targets, smoothing=smoothing, padding=padding)
        for read in (first, second)
    )
    return (one + other + alpha * disagreement(first, second, counted=targets != padding)) / 2


def r_drop(
    scores: Float[Tensor, "R T V"],
    targets: Int[Tensor, "B T"],
    *,
    alpha: float,
    smoothing: float = 0.0,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """The same with its gradient written out: on a CPU, in half the time."""
    return _RDrop.apply(  # type: ignore[no-untyped-call]
        scores.flatten(0, -2), targets.flatten(), alpha, smoothing, padding
    )


class _RDrop(torch.autograd.Function):
    """With d = log p − log q, the gradient by the scores of the first reading is

        ½ [p − y + α/2 · (p ⊙ (d − Σ_c p(c) d(c)) + p − q)]

    and by those of the second the same with p and q exchanged, and −d for d.
    It is made with the loss, a few positions at a time, for then p, q and d are at hand.
    """

    @staticmethod
    def forward(
        context: Any,
        scores: Float[Tensor, "R V"],
        targets: Int[Tensor, "N"],
        alpha: float,
        smoothing: float,
        padding: int,
    ) -> Float[Tensor, ""]:
        rows = ROWS if scores.device.type == "cpu" else len(targets)
        gradient = torch.empty_like(scores)
        losses = []
        for target, *both, to_first, to_second in zip(
            targets.split(rows),
            *(half.split(rows) for half in scores.chunk(2)),
            *(half.split(rows) for half in gradient.chunk(2)),
            strict=True,
        ):
            log_p, log_q = (read.float().log_softmax(-1) for read in both)
            p, q, d = log_p.exp(), log_q.exp(), log_p - log_q
            y, counted = target.clamp(min=0)[:, None], (target != padding)[:, None]
            p_d, q_d = ((read * d).sum(-1, keepdim=True) for read in (p, q))
            on_target = log_p.gather(-1, y) + log_q.gather(-1, y)
            on_all = (log_p + log_q).mean(-1, keepdim=True)
            loss = (alpha / 2) * (p_d - q_d) - (1 - smoothing) * on_target - smoothing * on_all
            losses.append(loss.masked_fill(~counted, 0.0).sum() / 2)
            for made, read, other, apart in (
                (to_first, p, q, d - p_d),
                (to_second, q, p, (d - q_d).neg_()),
            ):
                by_scores = torch.addcmul(read, read, apart, value=alpha / 2)
                by_scores.add_(read - other, alpha=alpha / 2).sub_(smoothing / read.size(-1))
                by_scores.scatter_add_(-1, y, read.new_full(y.shape, smoothing - 1))
                made.copy_(by_scores.mul_(counted / 2))
        context.save_for_backward(gradient)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(context: Any, scale: Float[Tensor, ""]) -> tuple[Tensor, None, None, None, None]:
        if torch.is_grad_enabled():  # it would be left out in silence
            raise RuntimeError("R-Drop has second derivatives in r_drop_reference alone")
        (gradient,) = context.saved_tensors
        return gradient * scale, None, None, None, None
