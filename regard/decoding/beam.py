"""Beam search: the best few hypotheses of every source, extended together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rules
from regard.decoding.step import Step
from regard.decoding.stepper import Stepper, log_probabilities, repeated
from regard.decoding.top import top

Extensions = tuple[Float[Tensor, "N C"], Int[Tensor, "N C"], Int[Tensor, "N C"]]
"""The best candidates of each of N beams, best first: log-probability, row, token."""
Extend = Callable[[Float[Tensor, "R V"], Float[Tensor, "N W"], int, Sequence[int]], Extensions]
"""(log-probabilities of the next tokens, log p of the W rows of each beam, how many to keep, the
number of each beam) -> the candidates to keep from."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α (Wu et al. 2016, eq. 14); `</s>` counts.

    A longer hypothesis has more factors below 1; divided by this, it is not worse for its length
    alone. α = 0 leaves log-probabilities as they are.
    """
    return ((5 + length) / 6) ** alpha


@torch.inference_mode()
def beam_search(
    stepper: Stepper,
    state: Any,
    first: Int[Tensor, "B"],
    *,
    end: int,
    max_new_tokens: int,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    never: Sequence[int] = (),
    rules: Rules | None = None,
    early_stopping: bool = False,
    groups: int = 1,
    extend: Extend | None = None,
) -> Iterator[Step]:
    """Extend the best `beam` hypotheses of each source, until its n_best are certain.

    Each step extends the `beam` hypotheses of a source by every token and ranks all of these
    together by log-probability. Of the first `beam`, those that end are finished; the best `beam`
    that go on are kept. A source is done when no hypothesis that goes on could still enter its
    n_best: log-probabilities only fall, so log p / penalty(the most tokens) is the most that one
    can reach.

    state and first: what the model has read so far, and the first token of each row to read next.
    never: tokens that are not generated, however probable, such as padding.
    rules: what else may not be generated. Hypotheses are ranked by log-probabilities after
    penalties, if there are any, as in transformers.
    early_stopping: a source is done when `beam` of its hypotheses have ended.
    groups: beams of equal size per source, which share `beam`. extend: another way to choose the
    candidates of each beam than by log-probability alone.
    """
    if n_best > beam:
        raise ValueError(f"n_best={n_best} is more than beam={beam}")
    extend = best_extensions if extend is None else extend
    tokens, state, sources = repeated(first, state, groups)  # R: the source of each row
    if groups > 1:
        beam = n_best = beam // groups
    limits = [
        max_new_tokens if rules is None else rules.most_tokens(max_new_tokens, source)
        for source in sources.tolist()
    ]
    endings = Endings(limits, alpha=alpha, n_best=n_best, enough=beam if early_stopping else None)
    # One row per beam at first; `beam` rows per beam after the first step.
    origins = torch.arange(len(tokens), device=first.device)
    total = torch.zeros(len(tokens), 1, device=first.device)  # N W: log p of W rows per beam
    generated = tokens[:, None][:, :0]  # R T, for the rules alone

    for length in range(1, max_new_tokens + 1):
        logits, state = stepper.step(tokens, state)
        log_p = log_probabilities(logits, never)  # R V
        allowed = log_p if rules is None else rules(log_p, generated, sources)
        ranked, rows, tokens = extend(allowed, total, beam, endings.going)  # N C
        ends = tokens == end
        finished = (ends[:, :beam] & (ranked[:, :beam] > -torch.inf)).nonzero()
        endings.add(finished, ranked, length)

        # The best `beam` that go on: those that end sink below all others.
        total, places = ranked.masked_fill(ends, -torch.inf).topk(min(beam, ranked.size(1)))
        places = places + ranked.size(1) * torch.arange(len(total), device=first.device)[:, None]
        if length == max_new_tokens:
            endings.enough = None  # those that are cut now are compared with those that have ended
        total, places = endings.drop_done(total, places)
        kept = places.flatten()
        if endings.unfilled:
            kept = kept[total.flatten() > -torch.inf]
        step = Step(
            length=length,
            end=end,
            sources=sources,
            origins=origins,
            next_log_probabilities=log_p,
            rows=rows.flatten(),
            tokens=tokens.flatten(),
            log_probabilities=ranked.flatten(),
            kept=kept,
            finished=finished[:, 0] * ranked.size(1) + finished[:, 1],
            penalty=length_penalty(length, alpha),
        )
        yield step
        if len(step.kept) < len(kept):  # a reader has ended some
            total, places = endings.drop_stopped(total, places, step)
        if length == max_new_tokens or not len(total):
            return
        origins = places.flatten()  # R
        parents, tokens = step.rows[origins], step.tokens[origins]
        del step, logits, log_p, allowed  # R × V each: their memory is used again
        sources, state = sources[parents], state.select(parents)
        if rules is not None:
            generated = torch.cat([generated[parents], tokens[:, None]], dim=1)


def best_extensions(
    log_p: Float[Tensor, "R V"],
    total: Float[Tensor, "N W"],
    beam: int,
    going: Sequence[int] = (),
) -> Extensions:
    """Of all rows (W per beam) and all tokens, the best: log-probability, row, token.

    2·beam of each: `beam` may end at once, and as many must remain to go on. Of one row no more
    than its best beam + 1 can be needed, for it ends in one way alone.
    """
    best, tokens = top(log_p, min(beam + 1, log_p.size(1)))  # R C
    (N, W), C = total.shape, best.size(1)
    extended = (total[:, :, None] + best.view(N, W, C)).flatten(1)  # N W·C
    ranked, places = extended.topk(min(2 * beam, W * C))
    rows = places // C + W * torch.arange(N, device=total.device)[:, None]
    return ranked, rows, tokens.view(N, W * C).gather(1, places)


class Endings:
    """The scores of the hypotheses that have ended, and the beams that are not done.

    limits: the most tokens of each beam's hypotheses. enough: how many endings end a beam, whatever
    could still be better; None: no number does.
    """

    def __init__(
        self, limits: Sequence[int], *, alpha: float, n_best: int, enough: int | None = None
    ) -> None:
        self._largest_penalty = [length_penalty(limit, alpha) for limit in limits]
        self._scores: list[list[float]] = [[] for _ in limits]
        self.going = list(range(len(limits)))
        """The numbers of the beams that are not done."""
        self._alpha, self._n_best, self.enough = alpha, n_best, enough
        self.unfilled = False
        """Whether some place of a beam has nothing to hold: its log-probability is −∞."""

    def add(self, places: Int[Tensor, "E 2"], log_p: Float[Tensor, "N W"], length: int) -> None:
        """These (beam, place) have ended with so many tokens."""
        if not len(places):
            return
        penalty = length_penalty(length, self._alpha)
        values = log_p[places[:, 0], places[:, 1]]
        for n, value in zip(places[:, 0].tolist(), values.tolist(), strict=True):
            self._scores[self.going[n]].append(value / penalty)

    def drop_done(
        self, total: Float[Tensor, "N W"], places: Int[Tensor, "N W"]
    ) -> tuple[Float[Tensor, "M W"], Int[Tensor, "M W"]]:
        """Both without the beams that are done."""
        least, most = torch.stack(total.aminmax(dim=1)).tolist()
        self.unfilled = -torch.inf in least
        remaining = [n for n, number in enumerate(self.going) if not self._done(number, most[n])]
        if len(remaining) == len(self.going):
            return total, places
        self.going = [self.going[n] for n in remaining]
        rows = torch.tensor(remaining, dtype=torch.long, device=total.device)
        return total[rows], places[rows]

    def drop_stopped(
        self, total: Float[Tensor, "N W"], places: Int[Tensor, "N W"], step: Step
    ) -> tuple[Float[Tensor, "M W"], Int[Tensor, "M W"]]:
        """Both without what a reader has ended at this step."""
        stopped = ~torch.isin(places, step.kept) & (total > -torch.inf)
        self.add(stopped.nonzero(), total, step.length)
        return self.drop_done(total.masked_fill(stopped, -torch.inf), places)

    def _done(self, number: int, best: float) -> bool:
        """Whether nothing that goes on, with log p up to `best`, can enter a beam's n_best."""
        scores = self._scores[number]
        if len(scores) < self._n_best:
            return best == -torch.inf
        if self.enough is not None and len(scores) >= self.enough:
            return True
        return (
            sorted(scores, reverse=True)[self._n_best - 1] >= best / self._largest_penalty[number]
        )
