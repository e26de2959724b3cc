"""Where in a text the answer to a question begins and ends."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.text_encoder import TextEncoder, leave_out_summary
from regard.nn.embedding import VocabularySide
from regard.nn.trace import Trace, at


class SpanLogits(NamedTuple):
    """For every token, the logit that the answer begins with it, and that it ends with it."""

    start: Float[Tensor, "B L"]
    end: Float[Tensor, "B L"]


class SpanFinder(nn.Module):
    """Logits of the first and the last token of an answer (Devlin et al. 2019, §4.2).

        [CLS] question [SEP] context [SEP] ─ body ─ hidden states ─ linear ─ start, end

    body: an encoder, that of an imported or pre-trained run for example.
    """

    exports: tuple[str, ...] = ("hf",)
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {"body.embedding": "read"}
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(self, body: TextEncoder) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_model, 2)
        leave_out_summary(body)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> SpanLogits:
        """Logits of each token, padding included; lengths: how many tokens are real, None: all."""
        hidden = self.body(tokens, lengths, segments=segments, trace=at(trace, "body")).hidden
        logits = SpanLogits(*self.output(hidden).unbind(dim=-1))
        if trace is not None:
            trace.at("output").record(start=logits.start, end=logits.end)
        return logits
