"""Diverse beam search, and beam sampling: other ways to choose the candidates of a beam."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.beam import Extensions, best_extensions
from regard.decoding.filters import filtered, filters
from regard.decoding.sampling import Noise


class DiverseGroups:
    """Each group avoids what the groups before it took here (Vijayakumar et al. 2018, §4).

        score = log p(y | …) − λ · (how many hypotheses of earlier groups go on, or end, with y)

    The beams of a source are its groups, one after another: beam n is group n mod `groups` of
    source n ÷ `groups`. What a token loses stays lost: hypotheses are ranked by the sum of these.
    """

    def __init__(self, groups: int, *, diversity: float, end: int) -> None:
        self.groups, self.diversity, self.end = groups, diversity, end

    def __call__(
        self,
        log_p: Float[Tensor, "R V"],
        total: Float[Tensor, "N W"],
        beam: int,
        going: Sequence[int],
    ) -> Extensions:
        """The candidates of all beams, group by group."""
        W, V = total.size(1), log_p.size(1)
        numbers = torch.tensor(going, device=log_p.device)
        sources = numbers // self.groups
        taken = log_p.new_zeros(int(sources.max()) + 1, V)  # how often, by the groups before
        parts: list[Extensions] = []
        order: list[Tensor] = []
        for group in range(self.groups):
            beams = (numbers % self.groups == group).nonzero()[:, 0]
            if not len(beams):
                continue
            rows = (beams[:, None] * W + torch.arange(W, device=beams.device)).flatten()
            lost = self.diversity * taken[sources[beams]].repeat_interleave(W, dim=0)
            ranked, places, tokens = best_extensions(log_p[rows] - lost, total[beams], beam)
            self._take(taken, sources[beams], ranked, tokens, beam)
            parts.append((ranked, rows[places], tokens))
            order.append(beams)
        back = torch.cat(order).argsort()
        ranked, rows, tokens = (torch.cat(part)[back] for part in zip(*parts, strict=True))
        return ranked, rows, tokens

    def _take(
        self,
        taken: Float[Tensor, "M V"],
        sources: Int[Tensor, "N"],
        ranked: Float[Tensor, "N C"],
        tokens: Int[Tensor, "N C"],
        beam: int,
    ) -> None:
        """Count the tokens that the hypotheses of a group go on or end with."""
        ends = tokens == self.end
        values, places = ranked.masked_fill(ends, -torch.inf).topk(min(beam, ranked.size(1)))
        chosen = tokens.gather(1, places)
        counted = (values > -torch.inf).to(taken.dtype)
        taken.index_put_((sources[:, None].expand_as(chosen), chosen), counted, accumulate=True)
        taken[:, self.end].index_add_(0, sources, ends[:, :beam].sum(dim=1).to(taken.dtype))


class SampledExtensions:
    """Candidates sampled from softmax(log p of the hypothesis + filtered log p of the token).

    Without replacement, by the largest of the values with Gumbel noise (Kool et al. 2019, §3). Of
    these, hypotheses are ranked by their log-probability, as in beam search.
    """

    def __init__(self, decode: Decode, seeds: Sequence[int]) -> None:
        self._filters = filters(decode)
        self._noise = Noise(seeds)

    def __call__(
        self,
        log_p: Float[Tensor, "R V"],
        total: Float[Tensor, "N W"],
        beam: int,
        going: Sequence[int],
    ) -> Extensions:
        """2·beam candidates of each beam, best first."""
        (N, W), V = total.shape, log_p.size(1)
        kept = filtered(log_p, self._filters).view(N, W, V)
        weights = (total[:, :, None] + kept).flatten(1)  # N W·V
        numbers = torch.tensor(going, device=log_p.device)
        places = self._noise(weights, numbers).topk(min(2 * beam, W * V)).indices
        extended = (total[:, :, None] + log_p.view(N, W, V)).flatten(1)
        values = extended.gather(1, places)
        values = values.masked_fill(weights.gather(1, places) == -torch.inf, -torch.inf)
        ranked, order = values.sort(dim=1, descending=True)
        places = places.gather(1, order)
        rows = places // V + W * torch.arange(N, device=total.device)[:, None]
        return ranked, rows, places % V
