"""Parts assembled into models."""

from regard.models.classifier import RecurrentClassifier
from regard.models.gpt import GPT
from regard.models.language_model import RecurrentLanguageModel
from regard.models.seq2seq import AttentionSeq2Seq
from regard.models.transformer import Transformer

EncoderDecoder = Transformer | AttentionSeq2Seq
"""A model that reads a source and scores a target: it is called alike, and can step."""

__all__ = [
    "GPT",
    "AttentionSeq2Seq",
    "EncoderDecoder",
    "RecurrentClassifier",
    "RecurrentLanguageModel",
    "Transformer",
]
