"""A small convolutional network over words: TextCNN."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.models.text_encoder import Encoded
from regard.nn.embedding import TokenEmbedding
from regard.nn.trace import Trace, at
from regard.nn.word_convolution import WordConvolution


class TextCNN(nn.Module):
    """Which filters find their few words anywhere in a text (Kim 2014).

        tokens ─ embedding ─ filters of several widths ─ max over time

    Its summary is the largest value of each filter; its hidden states are all values. d_model: the
    width of the embeddings; that of the states is as many as there are filters.

    padding: the token whose embedding stays zero; None: every token's is learned.
    """

    framed = False

    def __init__(
        self,
        vocab: int,
        *,
        d_model: int = 64,
        filters: int = 100,
        widths: Sequence[int] = (3, 4, 5),
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab, d_model, padding=padding)
        self.encoder = WordConvolution(d_model, filters=filters, widths=widths, fast=fast)
        self.d_model = self.encoder.d_output

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Encoded:
        """segments are not used: `</s>` between two texts tells them apart."""
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        mask = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]  # B L
        embedded = self.embedding(tokens, trace=at(trace, "embedding"))  # B L E
        return Encoded(*self.encoder(embedded, mask, trace=at(trace, "encoder")))
