"""The weights of a Hugging Face BERT under our names."""

import re

import torch
from torch import Tensor, nn

NAMES = (
    (r"^bert\.", "body."),
    (r"embeddings\.word_embeddings", "embedding.tokens"),
    (r"embeddings\.position_embeddings", "embedding.positions"),
    (r"embeddings\.token_type_embeddings", "embedding.segments"),
    (r"embeddings\.LayerNorm", "embedding.norm"),
    (r"encoder\.layer\.", "encoder.layers."),
    (r"attention\.output\.dense", "self_attention.output"),
    (r"attention\.output\.LayerNorm", "self_attention_residual.norm"),
    (r"intermediate\.dense", "feed_forward.inner"),
    (r"output\.LayerNorm", "feed_forward_residual.norm"),
    (r"(layers\.\d+\.)output\.dense", r"\1feed_forward.outer"),
    (r"pooler\.dense", "pooler.linear"),
)
HEADS = ("classifier.", "qa_outputs.")


def copy_weights(theirs: nn.Module, ours: nn.Module) -> None:
    """Every weight of theirs into ours; a head becomes `output`."""
    weights: dict[str, Tensor] = {}
    projections: dict[str, list[Tensor]] = {}
    for name, value in theirs.state_dict().items():
        ours_name = name
        for pattern, replacement in NAMES:
            ours_name = re.sub(pattern, replacement, ours_name)
        for head in HEADS:
            ours_name = ours_name.replace(head, "output.")
        stacked = re.sub(
            r"attention\.self\.(query|key|value)", "self_attention.projection", ours_name
        )
        if stacked != ours_name:  # query, key, value: in this order
            projections.setdefault(stacked, []).append(value)
        else:
            weights[ours_name] = value
    stacks = {name: torch.cat(parts) for name, parts in projections.items()}
    ours.load_state_dict(weights | stacks)
