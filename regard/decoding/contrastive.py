"""Contrastive search: a probable token whose hidden state is unlike all before it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.rules import Rules
from regard.decoding.step import Step
from regard.decoding.stepper import Reader, exclude


@dataclass(frozen=True)
class Remembered:
    """The state of a model, and the hidden state after every token that it has read."""

    inner: Any
    hidden: Float[Tensor, "B S D"] | None
    """None before the first token."""
    real: Bool[Tensor, "B S"]
    """True where a token was read, and not padding."""

    def select(self, rows: Int[Tensor, "N"]) -> "Remembered":
        hidden = None if self.hidden is None else self.hidden[rows]
        return Remembered(self.inner.select(rows), hidden, self.real[rows])

    @property
    def read(self) -> Float[Tensor, "B S D"]:
        """The hidden states, when there are some."""
        if self.hidden is None:
            raise ValueError("no token has been read yet")
        return self.hidden

    def grown(
        self, inner: Any, hidden: Float[Tensor, "B L D"], real: Bool[Tensor, "B L"]
    ) -> "Remembered":
        if self.hidden is not None:
            hidden = torch.cat([self.hidden, hidden], dim=1)
        return Remembered(inner, hidden, torch.cat([self.real, real], dim=1))


class Remembering:
    """A stepper whose state keeps the hidden states of the prompt and of all tokens after it."""

    def __init__(self, model: Reader) -> None:
        self.model = model

    def start(
        self, prompt: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None
    ) -> Remembered:
        nothing = prompt[:, :0]
        state = Remembered(self.model.start(nothing), None, nothing.bool())
        if not prompt.size(1):
            return state
        hidden, inner = self.model.read(prompt, state.inner, lengths)
        places = torch.arange(prompt.size(1), device=prompt.device)
        real = torch.ones_like(prompt, dtype=torch.bool)
        return state.grown(inner, hidden, real if lengths is None else places < lengths[:, None])

    def step(
        self, tokens: Int[Tensor, "B"], state: Remembered
    ) -> tuple[Float[Tensor, "B V"], Remembered]:
        hidden, inner = self.model.read(tokens[:, None], state.inner)
        real = torch.ones_like(tokens[:, None], dtype=torch.bool)
        return self.model.output(hidden[:, 0]), state.grown(inner, hidden, real)


def contrastive_scores(
    probabilities: Float[Tensor, "R K"],
    hidden: Float[Tensor, "R K D"],
    before: Float[Tensor, "R S D"],
    real: Bool[Tensor, "R S"],
    *,
    alpha: float,
) -> Float[Tensor, "R K"]:
    """(1 − α) p(v) − α max_j cos(h_v, h_j), over the tokens j before v (Su et al. 2022, eq. 5).

    hidden: the states after each candidate. before, real: those after each token so far, and which
    of them are of tokens, not of padding.
    """
    similarity = F.normalize(hidden, dim=-1) @ F.normalize(before, dim=-1).transpose(1, 2)  # R K S
    nearest = similarity.masked_fill(~real[:, None], -torch.inf).amax(dim=-1)  # R K
    scores = (1 - alpha) * probabilities - alpha * nearest
    return scores.masked_fill(probabilities == 0, -torch.inf)  # what no rule allows


@torch.inference_mode()
def contrastive_search(
    stepper: Remembering,
    state: Remembered,
    first: Int[Tensor, "B"],
    *,
    end: int,
    max_new_tokens: int,
    candidates: int = 4,
    alpha: float = 0.6,
    never: Sequence[int] = (),
    rules: Rules | None = None,
) -> Iterator[Step]:
    """Of the k most probable tokens, the one with the best contrastive score, until `end`.

    Each step reads the k candidates of every row, and goes on with one of them. The other arguments
    are those of greedy search; the state is that of a `Remembering` stepper.
    """
    sources = torch.arange(len(first), device=first.device)
    origins, total = sources, torch.zeros(len(first), device=first.device)
    generated = first[:, None][:, :0]  # R T, for the rules alone
    logits, state = stepper.step(first, state)
    for length in range(1, max_new_tokens + 1):
        logits = exclude(logits, never)  # R V
        log_p = logits.log_softmax(-1)
        allowed = logits if rules is None else rules(logits, generated, sources)
        R, K = logits.size(0), min(candidates, logits.size(1))
        probabilities, ids = allowed.softmax(dim=-1).topk(K)  # R K
        rows = torch.arange(R, device=first.device).repeat_interleave(K)  # C = R·K
        logits, ahead = stepper.step(ids.flatten(), state.select(rows))
        before, after = state.read, ahead.read[:, -1].view(R, K, -1)
        scores = contrastive_scores(probabilities, after, before, state.real, alpha=alpha)
        chosen = scores.argmax(dim=-1) + K * torch.arange(R, device=first.device)  # R
        ended = ids.flatten()[chosen] == end
        step = Step(
            length=length,
            end=end,
            sources=sources,
            origins=origins,
            next_log_probabilities=log_p,
            rows=rows,
            tokens=ids.flatten(),
            log_probabilities=total[rows] + log_p.gather(1, ids).flatten(),
            kept=chosen[~ended],
            finished=chosen[ended],
        )
        yield step
        origins = step.kept
        if length == max_new_tokens or not len(origins):
            return
        total, parents = step.log_probabilities[origins], rows[origins]
        sources, logits, state = sources[parents], logits[origins], ahead.select(origins)
        generated = torch.cat([generated[parents], step.tokens[origins][:, None]], dim=1)
