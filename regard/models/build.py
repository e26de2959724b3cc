"""From a configuration to a model."""

from dataclasses import fields
from typing import Any, cast

from regard.config import Config, Model
from regard.models.bag_of_words import BagOfWords
from regard.models.bert import Bert
from regard.models.blueprint import Blueprint
from regard.models.classifier import RecurrentClassifier
from regard.models.gpt import GPT
from regard.models.language_model import RecurrentLanguageModel
from regard.models.masked_language_model import MaskedLanguageModel
from regard.models.recurrent_encoder import RecurrentEncoder
from regard.models.seq2seq import AttentionSeq2Seq
from regard.models.span_finder import SpanFinder
from regard.models.tagger import Tagger
from regard.models.text_classifier import TextClassifier
from regard.models.text_cnn import TextCNN
from regard.models.text_embedder import Pool, TextEmbedder
from regard.models.transformer import Transformer
from regard.nn.pooling import PoolingKind

Reader = Bert | RecurrentEncoder | TextCNN | BagOfWords
"""The encoders that models which only read are built on."""


def classifier(
    config: Config, *, vocab: int, classes: int, padding: int | None
) -> TextClassifier | RecurrentClassifier:
    """The classifier of `model.kind`, for so many tokens and classes; 1 of these is a score."""
    model, pooling = config.model, cast(PoolingKind, config.model.pooling)
    if not model.recurrent:
        body = text_encoder(config, vocab=vocab, padding=padding)
        return TextClassifier(body, classes, pooling=pooling, dropout=model.dropout)
    return RecurrentClassifier(
        vocab,
        classes,
        bidirectional=model.bidirectional,
        pooling=pooling,
        padding=padding,
        **_recurrent(model),
    )


def language_model(
    config: Config, *, vocab: int, padding: int | None
) -> GPT | RecurrentLanguageModel:
    """The language model of `model.kind`, for so many tokens."""
    model, tied = config.model, config.model.tie_embeddings != "none"
    if model.recurrent:
        return RecurrentLanguageModel(vocab, tied=tied, padding=padding, **_recurrent(model))
    return GPT(
        vocab,
        n_layers=model.n_layers,
        tied=tied,
        zero_init=model.zero_init,
        padding=padding,
        max_length=config.data.max_length,
        fast=model.cell == "fast",
        **_blocks(model),
    )


def text_encoder(config: Config, *, vocab: int, padding: int | None) -> Reader:
    """The encoder of `model.kind`, for so many tokens: the body of a model that only reads."""
    model, fast = config.model, config.model.cell == "fast"
    if model.kind == "cnn":
        return TextCNN(
            vocab,
            d_model=model.d_model,
            filters=model.filters,
            widths=model.widths_of_filters,
            padding=padding,
            fast=fast,
        )
    if model.kind == "bag":
        bag, bigrams = model.bag, model.bigrams
        return BagOfWords(vocab, d_model=model.d_model, kind=bag, bigrams=bigrams, padding=padding)
    if model.recurrent:
        bidirectional = model.bidirectional
        return RecurrentEncoder(
            vocab, bidirectional=bidirectional, padding=padding, **_recurrent(model)
        )
    return Bert(
        vocab,
        n_layers=model.n_layers,
        segments=model.segments,
        embedding_norm=model.embedding_norm,
        pooler=model.pooler,
        padding=padding,
        own_init=model.kind != "bert",
        max_length=model.max_positions or config.data.max_length,
        fast=fast,
        **_blocks(model),
    )


def text_embedder(config: Config, *, vocab: int, padding: int | None) -> TextEmbedder:
    """The encoder of `model.kind`, and how its states become the vector of a text."""
    body = cast(Bert, text_encoder(config, vocab=vocab, padding=padding))
    pooling = cast(Pool, config.model.pooling)
    return TextEmbedder(body, pooling=pooling, normalize=config.model.normalize)


def tagger(config: Config, *, vocab: int, tags: int, padding: int | None) -> Tagger:
    """A tagger on the encoder of `model.kind`, for so many tokens and tags."""
    body, model = text_encoder(config, vocab=vocab, padding=padding), config.model
    return Tagger(body, tags, dropout=model.dropout, crf=model.crf)


def span_finder(config: Config, *, vocab: int, padding: int | None) -> SpanFinder:
    """A model that finds answers, on the encoder of `model.kind`, for so many tokens."""
    return SpanFinder(text_encoder(config, vocab=vocab, padding=padding))


def masked_language_model(
    config: Config, *, vocab: int, padding: int | None
) -> MaskedLanguageModel:
    """The encoder of `model.kind`, with the heads that it is pre-trained with."""
    model = config.model
    return MaskedLanguageModel(
        cast(Bert, text_encoder(config, vocab=vocab, padding=padding)),
        sentence_pair=config.data.sentence_pairs != "none",
        activation=model.activation,
        norm=Blueprint(**_blocks(model)).make_norm(),
        fast=model.cell == "fast",
        own_init=model.kind != "bert",
    )


def _recurrent(model: Model) -> dict[str, Any]:
    """The options of every recurrent model; a configuration allows a task no other kind."""
    return {
        "kind": model.kind,
        "d_model": model.d_model,
        "n_layers": model.n_layers,
        "dropout": model.dropout,
        "recurrent_init": model.recurrent_init,
        "fast": model.cell == "fast",
    }


def _blocks(model: Model) -> dict[str, Any]:
    """The options of every model of blocks: the keys that a blueprint has too."""
    keys = {field.name for field in fields(Blueprint)} & set(Model.model_fields)
    return {key: getattr(model, key) for key in keys}


def encoder_decoder(
    config: Config, *, vocabs: tuple[int, int], max_length: int, padding: int | None
) -> Transformer | AttentionSeq2Seq:
    """The model of `model.kind`, for so many source and target tokens.

    padding: the token, of both vocabularies, whose embedding stays zero.
    """
    model = config.model
    if model.kind == "transformer":
        return Transformer(
            *vocabs,
            n_layers=model.n_layers,
            decoder_layers=model.decoder_layers,
            tie_embeddings=model.tie_embeddings,
            padding=padding,
            max_length=max_length,
            fast=model.cell == "fast",
            **_blocks(model),
        )
    return AttentionSeq2Seq(
        *vocabs,
        attention=model.attention,
        bidirectional=model.bidirectional,
        teacher_forcing=config.train.teacher_forcing if config.train else 1.0,
        tie_embeddings=model.tie_embeddings,
        bridge=model.bridge,
        output_bias=model.output_bias,
        padding=padding,
        **_recurrent(model),
    )
