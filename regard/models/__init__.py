"""Parts assembled into models."""

from regard.models.bag_of_words import BagOfWords
from regard.models.bert import Bert
from regard.models.classifier import RecurrentClassifier
from regard.models.gpt import GPT
from regard.models.language_model import RecurrentLanguageModel
from regard.models.masked_language_model import MaskedLanguageModel, MaskedLogits
from regard.models.recurrent_encoder import RecurrentEncoder
from regard.models.seq2seq import AttentionSeq2Seq
from regard.models.span_finder import SpanFinder, SpanLogits
from regard.models.tagger import Tagger
from regard.models.text_classifier import TextClassifier
from regard.models.text_cnn import TextCNN
from regard.models.text_embedder import TextEmbedder
from regard.models.text_encoder import Encoded, TextEncoder
from regard.models.transformer import Transformer

EncoderDecoder = Transformer | AttentionSeq2Seq
"""A model that reads a source and scores a target: it is called alike, and can step."""

__all__ = [
    "GPT",
    "AttentionSeq2Seq",
    "BagOfWords",
    "Bert",
    "Encoded",
    "EncoderDecoder",
    "MaskedLanguageModel",
    "MaskedLogits",
    "RecurrentClassifier",
    "RecurrentEncoder",
    "RecurrentLanguageModel",
    "SpanFinder",
    "SpanLogits",
    "Tagger",
    "TextCNN",
    "TextClassifier",
    "TextEmbedder",
    "TextEncoder",
    "Transformer",
]
