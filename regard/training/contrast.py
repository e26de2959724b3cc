"""Contrast: vectors of one class are drawn together, those of two classes apart."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def contrast(vectors: Float[Tensor, "B D"], classes: Int[Tensor, "B"]) -> Float[Tensor, ""]:
    """Σᵢ mean_{j ≠ i} (cos(vᵢ, vⱼ) − [cᵢ = cⱼ])², for every text i of a batch.

    The loss of Sentence-BERT (Reimers & Gurevych 2019, §3) on pairs of labelled texts, as in SetFit
    (Tunstall et al. 2022, §3.1): there pairs are sampled, here they are all those of a batch, which
    cost no more than reading its texts. A text that is alone has none.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    alike = (classes[:, None] == classes).float()  # B B
    errors = (unit @ unit.T - alike) ** 2
    others = 1 - torch.eye(len(classes), device=vectors.device)
    return (errors * others).sum() / max(1, len(classes) - 1)
