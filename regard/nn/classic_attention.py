"""The classic attentions: a recurrent decoder attends to the outputs of its encoder."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.softmax import masked_softmax
from regard.nn.trace import Trace

ClassicKind = Literal["bahdanau", "luong-dot", "luong-general", "luong-concat"]
KINDS: tuple[ClassicKind, ...] = ("bahdanau", "luong-dot", "luong-general", "luong-concat")


class ClassicAttention(nn.Module):
    """context = Σₛ aₛ mₛ, a = softmax(score(q, m₁) … score(q, m_S)): a query q, a memory m.

        bahdanau         vᵀ tanh(W q + U m)      additive (Bahdanau et al. 2015, A.1.2)
        luong-dot        qᵀ m                    (Luong et al. 2015, §3.1)
        luong-general    qᵀ W m
        luong-concat     vᵀ tanh(W [q; m])

    Concat is additive attention with W and U in one matrix; general with W = I is dot.
    """

    def __init__(self, kind: ClassicKind, d_query: int, d_memory: int) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"attention={kind!r} is not one of {', '.join(KINDS)}")
        if kind == "luong-dot" and d_query != d_memory:
            raise ValueError(
                f"luong-dot needs query and memory of equal width, not {d_query} and {d_memory}; "
                f"luong-general takes any widths"
            )
        self.kind: ClassicKind = kind
        if kind == "bahdanau":
            self.query = nn.Linear(d_query, d_query, bias=False)  # W
            self.memory = nn.Linear(d_memory, d_query, bias=False)  # U
        elif kind == "luong-general":
            self.memory = nn.Linear(d_memory, d_query, bias=False)  # W
        elif kind == "luong-concat":
            self.both = nn.Linear(d_query + d_memory, d_query, bias=False)  # W
        if kind in ("bahdanau", "luong-concat"):
            bound = 1 / math.sqrt(d_query)
            self.v = nn.Parameter(torch.empty(d_query).uniform_(-bound, bound))

    def remember(self, memory: Float[Tensor, "B S M"]) -> "ProjectedMemory":
        """The memory and its projection, which is computed once for all steps."""
        if self.kind == "luong-dot":
            return ProjectedMemory(memory, memory)
        if self.kind == "luong-concat":
            part = self.both.weight[:, self.both.in_features - memory.size(-1) :]
            return ProjectedMemory(memory, memory @ part.T)
        return ProjectedMemory(memory, self.memory(memory))

    def forward(
        self,
        query: Float[Tensor, "B D"],
        memory: "ProjectedMemory",
        *,
        mask: Bool[Tensor, "B S"] | None = None,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B M"], Float[Tensor, "B S"]]:
        """The context and the attention weights."""
        scores = self.scores(query, memory)  # B S
        if trace is not None:
            mask = _without_edges(mask, scores, trace)
        weights = masked_softmax(scores[:, None], None if mask is None else mask[:, None])
        context = weights @ memory.memory  # B 1 M
        if trace is not None:
            if trace.off or trace.switches.heads(trace.path, 1):
                context = torch.zeros_like(context)
            trace.over(trace.memory).record(
                {"weights": "BHTS", "mask": "BHTS"},
                weights=weights[:, None],
                mask=None if mask is None else mask[:, None, None],
            )
        return context[:, 0], weights[:, 0]

    def scores(
        self, query: Float[Tensor, "B D"], memory: "ProjectedMemory"
    ) -> Float[Tensor, "B S"]:
        """The attention score of each position of the memory."""
        if self.kind in ("luong-dot", "luong-general"):
            return (memory.projected @ query[:, :, None])[:, :, 0]
        if self.kind == "bahdanau":
            projected = self.query(query)
        else:
            projected = query @ self.both.weight[:, : query.size(-1)].T
        return torch.tanh(projected[:, None] + memory.projected) @ self.v


def _without_edges(
    mask: Bool[Tensor, "B S"] | None, scores: Float[Tensor, "B S"], trace: Trace
) -> Bool[Tensor, "B S"] | None:
    """A mask that hides the edges of this step which are turned off as well."""
    S = scores.size(1)
    kept = trace.switches.edges(trace.path, heads=1, queries=1, keys=S, first=trace.first)
    if kept is None:
        return mask
    row = kept[:, 0].to(scores.device).expand(len(scores), S)
    return row if mask is None else mask & row


@dataclass(frozen=True)
class ProjectedMemory:
    """The encoder output, and its projection for the attention scores."""

    memory: Float[Tensor, "B S M"]
    projected: Float[Tensor, "B S D"]

    def select(self, rows: Tensor) -> "ProjectedMemory":
        return ProjectedMemory(self.memory[rows], self.projected[rows])
