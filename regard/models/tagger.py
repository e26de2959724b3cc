"""A tag for every token of a text."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.text_encoder import TextEncoder, leave_out_summary
from regard.nn.crf import LinearChainCRF, Transitions, viterbi
from regard.nn.dropout import Dropout
from regard.nn.embedding import VocabularySide
from regard.nn.trace import Trace, at


class Tagger(nn.Module):
    """Logits of the tags of every token, as in BERT for named entities (Devlin et al. 2019, §5.3).

        tokens ─ body ─ hidden states ─ linear ─ logits ─ (conditional random field)

    body: an encoder, that of an imported or pre-trained run for example. crf: transitions between
    tags are learned with it, and whole sequences are scored (Lample et al. 2016).
    """

    exports: tuple[str, ...] = ("hf",)
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "body.embedding": "read",
        "output": "generated",
        "crf": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self, body: TextEncoder, tags: int, *, dropout: float = 0.1, crf: bool = False
    ) -> None:
        super().__init__()
        self.body = body
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(body.d_model, tags)
        self.crf = LinearChainCRF(tags) if crf else None
        leave_out_summary(body)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B L C"]:
        """Logits of the tags of each token; lengths: how many tokens are real, None: all."""
        hidden = self.body(tokens, lengths, segments=segments, trace=at(trace, "body")).hidden
        logits = self.output(self.dropout(hidden))  # B L C
        if trace is not None:
            trace.at("output").record({"logits": "BTC"}, logits=logits)
        return logits

    @torch.no_grad()
    def best(
        self, logits: Float[Tensor, "B W C"], lengths: Int[Tensor, "B"], allowed: Transitions
    ) -> Int[Tensor, "B W"]:
        """The best sequence of tags of each row among those that are allowed.

        allowed: 0 where one tag may follow another, −∞ where not; the scores of the conditional
        random field are added to it, if there is one.
        """
        transitions = allowed if self.crf is None else allowed + self.crf.transitions
        return viterbi(logits, lengths, transitions)
