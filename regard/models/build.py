"""From a configuration to a model."""

from regard.config import Config
from regard.models.seq2seq import AttentionSeq2Seq
from regard.models.transformer import Transformer


def encoder_decoder(
    config: Config, *, vocab: int, max_length: int
) -> Transformer | AttentionSeq2Seq:
    """The model of `model.kind`, for one vocabulary on both sides."""
    model = config.model
    if model.kind == "transformer":
        return Transformer(
            vocab,
            vocab,
            d_model=model.d_model,
            n_layers=model.n_layers,
            n_heads=model.n_heads,
            d_ff=model.d_ff,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            norm=model.norm,
            positions=model.positions,
            max_length=max_length,
            activation=model.activation,
            tie_embeddings=model.tie_embeddings,
            fast=model.cell == "fast",
        )
    return AttentionSeq2Seq(
        vocab,
        vocab,
        kind=model.kind,
        attention=model.attention,
        d_model=model.d_model,
        n_layers=model.n_layers,
        bidirectional=model.bidirectional,
        dropout=model.dropout,
        teacher_forcing=config.train.teacher_forcing,
        tie_embeddings=model.tie_embeddings,
        fast=model.cell == "fast",
    )
