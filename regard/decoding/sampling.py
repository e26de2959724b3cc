"""Sampling: the next token chosen at random by its probability, unlikely ones left out."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.filters import filtered, filters


class Noise:
    """Gumbel noise for the rows of a search, each row from randomness of its own.

    argmaxᵢ (logitᵢ − log(−log uᵢ)) is a sample of softmax(logits) (Gumbel 1954), and the k largest
    are k samples without replacement: what a row samples depends on its own seed, and not on the
    rows beside it.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        # torch looks at 32 bits of a seed alone: all of it is mixed into those.
        mixed = (np.random.SeedSequence(seed).generate_state(1)[0] for seed in seeds)
        self._generators = [torch.Generator().manual_seed(int(seed)) for seed in mixed]

    def __call__(
        self, logits: Float[Tensor, "R V"], rows: Int[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        """The logits with noise added; rows: which of the seeds each row has."""
        uniform = torch.stack(
            [torch.rand(logits.size(1), generator=self._generators[row]) for row in rows.tolist()]
        ).to(logits.device)
        return logits - (-uniform.log()).log()


class Sampler:
    """Samples a token for every row, after the filters of a configuration."""

    def __init__(self, decode: Decode, seeds: Sequence[int]) -> None:
        self._filters = filters(decode)
        self._noise = Noise(seeds)

    def __call__(self, logits: Float[Tensor, "R V"], rows: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """One token per row; rows: which of the seeds each row has."""
        return self._noise(filtered(logits, self._filters), rows).argmax(dim=-1)
