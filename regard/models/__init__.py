"""Parts assembled into models."""

from regard.models.transformer import Transformer, TransformerState

__all__ = ["Transformer", "TransformerState"]
