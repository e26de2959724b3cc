"""From a configuration to a model."""

from regard.config import Config
from regard.models.classifier import RecurrentClassifier
from regard.models.language_model import RecurrentLanguageModel
from regard.models.seq2seq import AttentionSeq2Seq
from regard.models.transformer import Transformer


def recurrent_classifier(config: Config, *, vocab: int, classes: int) -> RecurrentClassifier:
    """The classifier of `model.kind`, for so many tokens and classes."""
    model = config.model
    if model.kind == "transformer":
        raise ValueError("model.kind=transformer is no classifier; it may be rnn, gru or lstm")
    return RecurrentClassifier(
        vocab,
        classes,
        kind=model.kind,
        d_model=model.d_model,
        n_layers=model.n_layers,
        bidirectional=model.bidirectional,
        pooling=model.pooling,
        dropout=model.dropout,
        recurrent_init=model.recurrent_init,
        fast=model.cell == "fast",
    )


def recurrent_language_model(config: Config, *, vocab: int) -> RecurrentLanguageModel:
    """The language model of `model.kind`, for so many tokens."""
    model = config.model
    if model.kind == "transformer":
        raise ValueError("model.kind=transformer is no language model; it may be rnn, gru or lstm")
    return RecurrentLanguageModel(
        vocab,
        kind=model.kind,
        d_model=model.d_model,
        n_layers=model.n_layers,
        dropout=model.dropout,
        tied=model.tie_embeddings != "none",
        recurrent_init=model.recurrent_init,
        fast=model.cell == "fast",
    )


def encoder_decoder(
    config: Config, *, vocabs: tuple[int, int], max_length: int
) -> Transformer | AttentionSeq2Seq:
    """The model of `model.kind`, for so many source and target tokens."""
    model = config.model
    if model.kind == "transformer":
        return Transformer(
            *vocabs,
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
        *vocabs,
        kind=model.kind,
        attention=model.attention,
        d_model=model.d_model,
        n_layers=model.n_layers,
        bidirectional=model.bidirectional,
        dropout=model.dropout,
        teacher_forcing=config.train.teacher_forcing,
        recurrent_init=model.recurrent_init,
        tie_embeddings=model.tie_embeddings,
        fast=model.cell == "fast",
    )
