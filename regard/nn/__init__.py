"""The parts: one idea a file, each written out from its formula beside its fast form.

Notation, the same letters everywhere: B batch, S source length, T target length, L either,
D model width, H heads, K head width, F feed-forward width, V vocabulary.
"""

from regard.nn.attention import SingleHeadAttention, attend, attend_fast
from regard.nn.cache import KVCache
from regard.nn.cells import Cell
from regard.nn.classic_attention import ClassicAttention, ProjectedMemory
from regard.nn.decoder import Decoder, DecoderLayer, LayerCache
from regard.nn.embedding import Embedding, OutputProjection, TokenEmbedding
from regard.nn.encoder import Encoder, EncoderLayer
from regard.nn.feed_forward import FeedForward
from regard.nn.layer_norm import LayerNorm
from regard.nn.masks import PADDING, causal_mask, padding_mask
from regard.nn.multi_head import CrossAttention, MultiHeadAttention, SelfAttention
from regard.nn.pooling import Pooling
from regard.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)
from regard.nn.recurrent import Recurrent
from regard.nn.residual import Residual
from regard.nn.softmax import log_softmax, masked_softmax, softmax
from regard.nn.trace import Trace

__all__ = [
    "PADDING",
    "Cell",
    "ClassicAttention",
    "CrossAttention",
    "Decoder",
    "DecoderLayer",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KVCache",
    "LayerCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "OutputProjection",
    "Pooling",
    "ProjectedMemory",
    "Recurrent",
    "Residual",
    "RotaryPositions",
    "SelfAttention",
    "SingleHeadAttention",
    "SinusoidalPositions",
    "TokenEmbedding",
    "Trace",
    "attend",
    "attend_fast",
    "causal_mask",
    "log_softmax",
    "masked_softmax",
    "padding_mask",
    "sinusoids",
    "softmax",
]
