"""Text encoder: what every model that reads a text whole, and generates none, is built on."""

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.trace import Trace


class Encoded(NamedTuple):
    """A text as an encoder leaves it."""

    hidden: Float[Tensor, "B L D"]
    """A vector per token; what stands at padding means nothing."""
    summary: Float[Tensor, "B D"]
    """What the encoder itself has for the whole text: a last state, or the pooled [CLS]."""


@runtime_checkable
class TextEncoder(Protocol):
    """Reads token ids, each with all others in sight: `Bert`, `RecurrentEncoder`, …

    A model for a task has its encoder as `body`, and heads of its own beside it. So weights that
    one task has trained are found by another: `--init RUN:body`.
    """

    d_model: int
    framed: bool
    """Whether it expects `<s> text </s>`: BERT's [CLS] and [SEP]."""

    def __call__(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Encoded:
        """lengths: how many tokens of each row are real; None: all.

        segments: which of two texts each token belongs to, 0 or 1; None: there is one text.
        """
        ...


def leave_out_summary(body: object) -> None:
    """The weights that make the summary of a body do not learn, where no head looks at it.

    They would get no gradient, and an optimiser no state of them to resume with.
    """
    pooler = getattr(body, "pooler", None)
    if isinstance(pooler, nn.Module):
        pooler.requires_grad_(False)
