"""Step: what a search did with one more token, for whoever reads along."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(eq=False)
class Step:
    """The candidates that a search considered at one step, and what became of them.

        rows R         the hypotheses that the model was stepped with
        candidates C   a row and a token that may follow it: kept, finished or pruned

    Greedy search and sampling consider one candidate per row; contrastive search, the best few of
    each row; beam search, the best few of all rows of a source. A step is read before the search
    goes on: a reader may end candidates (`finish`), and the search takes none of them further. To
    keep a whole step is to keep R × V numbers.
    """

    length: int
    """How many tokens each candidate has, the new one counted."""
    end: int
    """The token that ends a hypothesis, and is not part of its output."""
    sources: Int[Tensor, "R"]
    """The source (or prompt) that each row belongs to."""
    origins: Int[Tensor, "R"]
    """The candidate of the previous step that each row is; in the first step, the row's number."""
    next_log_probabilities: Float[Tensor, "R V"]
    """log p(token | row) of every token, before any rule."""
    rows: Int[Tensor, "C"]
    """The row that each candidate extends."""
    tokens: Int[Tensor, "C"]
    """The token that it extends the row by."""
    log_probabilities: Float[Tensor, "C"]
    """Σ log p of all its tokens; −∞ where a beam has more places than there are candidates."""
    kept: Int[Tensor, "K"]
    """The candidates that go on; after the last step, those that were cut by max_new_tokens."""
    finished: Int[Tensor, "E"]
    """The candidates that have ended."""
    penalty: float = 1.0
    """The length penalty: hypotheses are ranked by their log-probability divided by it."""

    @property
    def parents(self) -> Int[Tensor, "C"]:
        """The candidate of the previous step that each candidate extends."""
        return self.origins[self.rows]

    @property
    def pruned(self) -> Int[Tensor, "P"]:
        """The candidates that were considered and neither kept nor finished."""
        considered = self.log_probabilities > -torch.inf
        considered[self.kept] = False
        considered[self.finished] = False
        return considered.nonzero()[:, 0]

    def finish(self, candidates: Int[Tensor, "N"]) -> None:
        """End these candidates of those that were kept, as they stand."""
        self.kept = self.kept[~torch.isin(self.kept, candidates)]
        self.finished = torch.cat([self.finished, candidates])
