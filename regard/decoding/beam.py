"""Beam search: the best few hypotheses of every source, extended together."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rules
from regard.decoding.stepper import Stepper, without


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α (Wu et al. 2016, eq. 14); `</s>` counts.

    A longer hypothesis has more factors below 1; divided by this, it is not worse for its length
    alone. α = 0 leaves log-probabilities as they are.
    """
    return ((5 + length) / 6) ** alpha


@torch.inference_mode()
def beam_search(
    stepper: Stepper,
    source: Int[Tensor, "B S"],
    *,
    start: int,
    end: int,
    max_new_tokens: int,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    never: Sequence[int] = (),
    rules: Rules | None = None,
    lengths: Int[Tensor, "B"] | None = None,
) -> list[list[Hypothesis]]:
    """For each source the n_best hypotheses, best first.

    Each step extends the `beam` hypotheses of a source by every token and ranks all of these
    together by log-probability. Of the first `beam`, those that end are finished; the best `beam`
    that go on are kept. A source is done when no hypothesis that goes on could still enter its
    n_best: log-probabilities only fall, so log p / penalty(the most tokens) is the most that one
    can reach. What is still going at max_new_tokens stands beside the finished ones.

    never: tokens that are not written, whatever their score, such as padding.
    rules: what else may not be written; probabilities stay what they are without the rules.
    lengths: how many tokens of each source are real; None: all.
    """
    if n_best > beam:
        raise ValueError(f"n_best={n_best} is more than beam={beam}")
    B, device = source.size(0), source.device
    results: list[list[Hypothesis]] = [[] for _ in range(B)]
    most = [
        length_penalty(rules.most_tokens(max_new_tokens, n) if rules else max_new_tokens, alpha)
        for n in range(B)
    ]

    # One row a source at first; `beam` rows a source after the first step.
    state = stepper.start(source) if lengths is None else stepper.start(source, lengths)
    tokens = torch.full((B,), start, device=device)
    going = list(range(B))  # sources that are not done
    total = torch.zeros(B, 1, device=device)  # log-probability of each hypothesis: B beam
    prefix = torch.empty(B, 1, 0, dtype=torch.long, device=device)  # B beam T

    for length in range(1, max_new_tokens + 1):
        scores, state = stepper.step(tokens, state)
        N, width = total.shape
        following = without(scores, never).float().log_softmax(-1)  # R V
        if rules is not None:
            sources = torch.tensor(going, device=device).repeat_interleave(width)
            following = rules(following, prefix.flatten(0, 1), sources)
        ranked, parents, nexts = _best_extensions(following, total, beam)
        ends = nexts == end

        for n, rank in ends[:, :beam].nonzero().tolist():
            value = ranked[n, rank].item()
            if value == -torch.inf:
                continue  # a place in the beam that nothing filled
            results[going[n]].append(
                Hypothesis(
                    prefix[n, int(parents[n, rank])].tolist(),
                    value / length_penalty(length, alpha),
                    value,
                    True,
                )
            )

        # The best `beam` that go on: those that end sink below all others.
        total, chosen = ranked.masked_fill(ends, -torch.inf).topk(min(beam, ranked.size(1)))
        parents, nexts = parents.gather(1, chosen), nexts.gather(1, chosen)  # N beam
        prefix = torch.cat(
            [prefix.gather(1, parents[:, :, None].expand(-1, -1, length - 1)), nexts[:, :, None]],
            dim=2,
        )

        best = total[:, 0].tolist()
        remaining = [
            n for n in range(N) if not _done(results[going[n]], best[n] / most[going[n]], n_best)
        ]
        if not remaining:
            going = []
            break
        keep = torch.tensor(remaining, device=device)
        rows = (keep[:, None] * width + parents[keep]).flatten()
        going = [going[n] for n in remaining]
        state, tokens = state.select(rows), nexts[keep].flatten()
        total, prefix = total[keep], prefix[keep]

    for n, sentence in enumerate(going):
        for value, ids in zip(total[n].tolist(), prefix[n].tolist(), strict=True):
            if value > -torch.inf:
                score = value / length_penalty(max_new_tokens, alpha)
                results[sentence].append(Hypothesis(ids, score, value, False))
    return [sorted(found, key=lambda one: -one.score)[:n_best] for found in results]


def _best_extensions(
    following: Float[Tensor, "R V"], total: Float[Tensor, "N W"], beam: int
) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"], Int[Tensor, "N C"]]:
    """Of all hypotheses (W a source) and all tokens, the best: log-probability, parent, token.

    2·beam a source: `beam` may end at once, and as many must remain to go on. Of one hypothesis no
    more than its best beam + 1 can be needed, for it ends in one way alone.
    """
    best, tokens = top(following, min(beam + 1, following.size(1)))  # R C
    (N, W), C = total.shape, best.size(1)
    extended = (total[:, :, None] + best.view(N, W, C)).flatten(1)  # N W·C
    ranked, places = extended.topk(min(2 * beam, W * C))
    return ranked, places // C, tokens.view(N, W * C).gather(1, places)


def top(
    scores: Float[Tensor, "R V"], count: int, *, stretch: int = 64
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """`scores.topk(count)`, three times faster on a CPU where V is large.

    The best `count` scores stand in the `count` stretches whose maxima are highest: find those by
    maxima alone, and sort nothing else.
    """
    R, V = scores.shape
    whole = V // stretch * stretch
    if whole // stretch < 4 * count:
        return scores.topk(count)
    stretches = scores[:, :whole].view(R, -1, stretch)
    chosen = stretches.amax(-1).topk(count).indices  # R C
    inside = stretches.gather(1, chosen[:, :, None].expand(-1, -1, stretch)).flatten(1)
    values, places = torch.cat([inside, scores[:, whole:]], dim=1).topk(count)
    ids = chosen[:, :, None] * stretch + torch.arange(stretch, device=scores.device)
    rest = torch.arange(whole, V, device=scores.device).expand(R, -1)
    return values, torch.cat([ids.flatten(1), rest], dim=1).gather(1, places)


def _done(found: list[Hypothesis], reachable: float, n_best: int) -> bool:
    """Whether n_best are found that nothing still going can pass."""
    if len(found) < n_best:
        return reachable == -torch.inf
    return sorted((one.score for one in found), reverse=True)[n_best - 1] >= reachable
