"""The parts: one idea per file, each written out from its formula beside its fast form.

Notation, the same letters everywhere: B batch, S source length, T target length, L either,
D model width, H heads, K head width, F feed-forward width, V vocabulary.
"""

from regard.nn.attention import SingleHeadAttention, attend, attend_fast
from regard.nn.block import Block
from regard.nn.cache import KVCache, LayerCache
from regard.nn.cells import Cell
from regard.nn.classic_attention import ClassicAttention, ProjectedMemory
from regard.nn.context import Context
from regard.nn.embedding import Embedding, OutputProjection, TokenEmbedding
from regard.nn.feed_forward import FeedForward
from regard.nn.layer_norm import LayerNorm
from regard.nn.masks import causal_mask, padding_mask
from regard.nn.multi_head import CrossAttention, MultiHeadAttention, SelfAttention
from regard.nn.norms import Norm, make_norm
from regard.nn.pooling import Pooling
from regard.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)
from regard.nn.recurrent import Recurrent
from regard.nn.residual import Residual
from regard.nn.rms_norm import RMSNorm
from regard.nn.softmax import log_softmax, masked_softmax, softmax
from regard.nn.stack import Stack
from regard.nn.stacked_linear import StackedLinear
from regard.nn.trace import Trace

__all__ = [
    "Block",
    "Cell",
    "ClassicAttention",
    "Context",
    "CrossAttention",
    "Embedding",
    "FeedForward",
    "KVCache",
    "LayerCache",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "Norm",
    "OutputProjection",
    "Pooling",
    "ProjectedMemory",
    "RMSNorm",
    "Recurrent",
    "Residual",
    "RotaryPositions",
    "SelfAttention",
    "SingleHeadAttention",
    "SinusoidalPositions",
    "Stack",
    "StackedLinear",
    "TokenEmbedding",
    "Trace",
    "attend",
    "attend_fast",
    "causal_mask",
    "log_softmax",
    "make_norm",
    "masked_softmax",
    "padding_mask",
    "sinusoids",
    "softmax",
]
