"""How the weights of GPT and BERT begin."""

import torch
from torch import nn

from regard.nn.embedding import OutputProjection, TokenEmbedding
from regard.nn.positions import LearnedPositions

INITIAL_STD = 0.02
"""Standard deviation of the first weights (Radford et al. 2018, §4.1; Devlin et al. 2019)."""


def initialise(module: nn.Module) -> None:
    """Normal weights, zero biases; the row of padding stays zero."""
    if isinstance(module, nn.Linear | TokenEmbedding | LearnedPositions | OutputProjection):
        nn.init.normal_(module.weight, std=INITIAL_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, TokenEmbedding | OutputProjection) and module.padding is not None:
        with torch.no_grad():
            module.weight[module.padding] = 0
