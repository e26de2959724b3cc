"""A linear-chain conditional random field: the probability of a whole sequence of tags."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class Transitions:
    """What tags score beside each other; −∞ where they may not stand so."""

    start: Float[Tensor, "C"]
    """Of each tag as the first."""
    between: Float[Tensor, "C C"]
    """Of each tag (row) before each tag (column)."""
    end: Float[Tensor, "C"]
    """Of each tag as the last."""

    def to(self, device: torch.device) -> "Transitions":
        return Transitions(self.start.to(device), self.between.to(device), self.end.to(device))

    def __add__(self, other: "Transitions") -> "Transitions":
        """The scores of both together."""
        return Transitions(
            self.start + other.start, self.between + other.between, self.end + other.end
        )


class LinearChainCRF(nn.Module):
    """log p(y | x) of the tags y of a sequence (Lafferty et al. 2001; Lample et al. 2016, §2.2).

        s(y) = b[y₁] + Σₜ z[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + e[y_L]
        log p(y | x) = s(y) − log Σ_y' exp s(y')

    z are the logits of each position; b, A and e are learned. Every row has at least one position.
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.between = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))

    @property
    def transitions(self) -> Transitions:
        """b, A and e."""
        return Transitions(self.start, self.between, self.end)

    def forward(
        self, logits: Float[Tensor, "B L C"], tags: Int[Tensor, "B L"], lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        """log p of the tags of each row; what stands at padding changes nothing."""
        logits, transitions = logits.float(), self.transitions
        score = path_score(logits, tags, lengths, transitions)
        return score - log_partition(logits, lengths, transitions)


def path_score(
    logits: Float[Tensor, "B L C"],
    tags: Int[Tensor, "B L"],
    lengths: Int[Tensor, "B"],
    transitions: Transitions,
) -> Float[Tensor, "B"]:
    """s(y) = b[y₁] + Σₜ z[t, yₜ] + Σₜ A[yₜ₋₁, yₜ] + e[y_L], of these tags."""
    real = torch.arange(tags.size(1), device=tags.device) < lengths[:, None]  # B L
    tags = tags.masked_fill(~real, 0)
    on_path = logits.gather(-1, tags[..., None])[..., 0].masked_fill(~real, 0.0)  # B L
    moves = transitions.between[tags[:, :-1], tags[:, 1:]].masked_fill(~real[:, 1:], 0.0)  # B L-1
    last = tags.gather(1, lengths[:, None] - 1)[:, 0]  # B
    ends = transitions.start[tags[:, 0]] + transitions.end[last]
    return ends + on_path.sum(1) + moves.sum(1)


def log_partition(
    logits: Float[Tensor, "B L C"], lengths: Int[Tensor, "B"], transitions: Transitions
) -> Float[Tensor, "B"]:
    """log Σ_y exp s(y), over all sequences of tags, by the forward algorithm:

    α₁[c] = b[c] + z[1, c]
    αₜ[c] = z[t, c] + log Σ_c' exp(αₜ₋₁[c'] + A[c', c])
    """
    alpha = transitions.start + logits[:, 0]  # B C
    for position in range(1, logits.size(1)):
        moved = torch.logsumexp(alpha[:, :, None] + transitions.between, dim=1)  # B C
        alpha = torch.where((position < lengths)[:, None], logits[:, position] + moved, alpha)
    return torch.logsumexp(alpha + transitions.end, dim=1)


@torch.no_grad()
def viterbi(
    logits: Float[Tensor, "B L C"], lengths: Int[Tensor, "B"], transitions: Transitions
) -> Int[Tensor, "B L"]:
    """The tags y with the highest s(y); 0 at padding (Viterbi 1967).

    δₜ[c] = z[t, c] + max_c' (δₜ₋₁[c'] + A[c', c]), and back along the c' that were largest.
    """
    B, L, C = logits.shape
    best = transitions.start + logits[:, 0].float()  # B C
    stay = torch.arange(C, device=logits.device).expand(B, C)
    came_from = []
    for position in range(1, L):
        inside = (position < lengths)[:, None]  # B 1
        moved, previous = (best[:, :, None] + transitions.between).max(dim=1)  # B C
        best = torch.where(inside, logits[:, position] + moved, best)
        came_from.append(torch.where(inside, previous, stay))
    tag = (best + transitions.end).argmax(dim=1, keepdim=True)  # B 1
    path = [tag]
    for previous in reversed(came_from):
        tag = previous.gather(1, tag)
        path.append(tag)
    tags = torch.cat(path[::-1], dim=1)  # B L
    return tags.masked_fill(torch.arange(L, device=tags.device) >= lengths[:, None], 0)
