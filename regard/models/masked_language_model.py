"""Masked language model: the words that were masked, and whether two texts belong together."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.bert import Bert
from regard.models.initial import initialise
from regard.models.text_encoder import leave_out_summary
from regard.nn.activations import FAST, REFERENCE, Activation
from regard.nn.embedding import OutputProjection, TokenEmbedding, VocabularySide
from regard.nn.layer_norm import LayerNorm
from regard.nn.norms import Norm
from regard.nn.trace import Trace, at

PAIR_CLASSES = 2
"""0: the second text follows the first; 1: it does not, or the two are swapped."""


class MaskedLogits(NamedTuple):
    """What a `MaskedLanguageModel` says of a batch."""

    words: Float[Tensor, "*N V"]
    """The logit of every token, at each position that was asked for."""
    pair: Float[Tensor, "B 2"] | None
    """The logits of `PAIR_CLASSES` for each row, if there is such a head."""


class MaskedWords(nn.Module):
    """Norm(GELU(W h + b)) Eᵀ + c: E is the token embedding (Devlin et al. 2019; in its code)."""

    def __init__(
        self, tokens: TokenEmbedding, *, norm: Norm, activation: Activation, fast: bool = True
    ) -> None:
        super().__init__()
        vocab, d_model = tokens.weight.shape
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.norm = norm
        self.output = OutputProjection(vocab, d_model, tied=tokens, bias=True)
        self.fast = fast

    def forward(
        self, hidden: Float[Tensor, "*N D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*N V"]:
        activations = FAST if self.fast and trace is None else REFERENCE
        transformed = activations[self.activation](self.dense(hidden))  # *N D
        normed = self.norm(transformed, trace=at(trace, "norm"))
        return self.output(normed, trace=at(trace, "output"))


class MaskedLanguageModel(nn.Module):
    """BERT as it is pre-trained (Devlin et al. 2019, §3.1).

        [CLS] a [MASK] [SEP] b [SEP] ─ body ┬ hidden states ─ masked words ─ logits
                                            └ summary ─ sentence pair ─ 2 logits

    sentence_pair: whether there is the second head, for next sentences or for their order.
    norm: that of the masked words; None: BERT's layer norm. own_init: as of the body.
    """

    exports: tuple[str, ...] = ("hf",)
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "body.embedding": "read",
        "masked_words.output": "read",
    }
    """Its parts with one row per token; both are of the one vocabulary."""

    def __init__(
        self,
        body: Bert,
        *,
        sentence_pair: bool = True,
        activation: Activation = "gelu",
        norm: Norm | None = None,
        fast: bool = True,
        own_init: bool = False,
    ) -> None:
        super().__init__()
        self.body = body
        if norm is None:
            norm = LayerNorm(body.d_model, epsilon=1e-12, fast=fast)
        tokens = body.embedding.tokens
        self.masked_words = MaskedWords(tokens, norm=norm, activation=activation, fast=fast)
        self.sentence_pair = nn.Linear(body.d_model, PAIR_CLASSES) if sentence_pair else None
        if not sentence_pair:
            leave_out_summary(body)
        for head in (self.masked_words.dense, self.sentence_pair):
            if head is not None and not own_init:
                head.apply(initialise)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        places: Int[Tensor, "N"] | None = None,
        trace: Trace | None = None,
    ) -> MaskedLogits:
        """lengths: how many tokens of each row are real; None: all.

        segments: which text each token belongs to; None: all to the first.
        places: the positions whose words are asked for, counted through all rows, b L + l; None:
        all. The product with the vocabulary is the largest there is, and a few of them are masked.
        """
        hidden, summary = self.body(tokens, lengths, segments=segments, trace=at(trace, "body"))
        asked = hidden if places is None else hidden.flatten(0, 1)[places]  # B L D or N D
        words = self.masked_words(asked, trace=at(trace, "masked_words"))
        pair = None if self.sentence_pair is None else self.sentence_pair(summary)  # B 2
        if trace is not None and pair is not None:
            trace.at("sentence_pair").record({"logits": "BC"}, logits=pair)
        return MaskedLogits(words, pair)
