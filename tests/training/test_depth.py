"""Layer-wise learning rates, and top layers that begin anew."""

import pytest
import torch
from torch import nn

from regard.models import Bert
from regard.system.errors import UserError
from regard.training.depth import begun_anew, depths
from regard.training.groups import describe_groups, freeze, lr_scales
from regard.training.optimisers import make_optimiser

BLOCKS = 3


class Classifier(nn.Module):
    """A tiny BERT with a head; its words are tied to the embedding, as in pre-training."""

    def __init__(self) -> None:
        super().__init__()
        parts = {"d_model": 8, "n_heads": 2, "d_ff": 16, "max_length": 6, "dropout": 0.0}
        self.body = Bert(10, n_layers=BLOCKS, **parts)
        self.output = nn.Linear(8, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.body(tokens).summary)


def test_depth_is_counted_from_the_heads_down_to_the_embeddings() -> None:
    depth = depths(Classifier(), key="")
    by_part = {name.rpartition(".")[0]: below for name, below in depth.items()}
    assert by_part["output"] == 0
    assert by_part["body.pooler.linear"] == by_part["body.encoder.layers.2.feed_forward.inner"] == 1
    assert by_part["body.encoder.layers.1.feed_forward.inner"] == 2
    assert by_part["body.encoder.layers.0.feed_forward.inner"] == 3
    for part in ("tokens", "positions", "segments", "norm"):
        assert by_part[f"body.embedding.{part}"] == BLOCKS + 1


def test_a_tied_weight_has_the_depth_of_the_embedding() -> None:
    model = Classifier()
    model.words = nn.Linear(8, 10, bias=False)
    model.words.weight = model.body.embedding.tokens.weight
    assert depths(model, key="")["words.weight"] == BLOCKS + 1


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_every_layer_learns_at_the_decayed_rate(name: str) -> None:
    """Beside optimisers written out, one for each weight, with its own learning rate."""
    lr, decay = 1e-2, 0.5
    torch.manual_seed(0)
    model, reference = Classifier(), Classifier()
    reference.load_state_dict(model.state_dict())
    optimiser = make_optimiser(model, name=name, lr=lr, lr_scale={"output": 3.0}, layer_decay=decay)
    for group in optimiser.param_groups:
        group["lr"] = group["lr_scale"] * lr
    expected = {
        "output": 3 * lr,
        "body.pooler": decay * lr,
        "body.encoder.layers.2": decay * lr,
        "body.encoder.layers.1": decay**2 * lr,
        "body.encoder.layers.0": decay**3 * lr,
        "body.embedding": decay**4 * lr,
    }
    singly = []
    for part, rate in expected.items():
        only = nn.Module()
        only.part = reference.get_submodule(part)
        singly.append(make_optimiser(only, name=name, lr=rate))
    tokens, classes = torch.randint(1, 10, (4, 6)), torch.tensor([0, 1, 1, 0])
    for _ in range(3):
        for one, steps in ((model, [optimiser]), (reference, singly)):
            nn.functional.cross_entropy(one(tokens), classes).backward()
            for each in steps:
                each.step()
                each.zero_grad()
    for (label, weight), other in zip(
        model.named_parameters(), reference.parameters(), strict=True
    ):
        torch.testing.assert_close(weight, other, rtol=1e-5, atol=1e-6, msg=label)


def test_without_decay_every_weight_learns_alike() -> None:
    assert set(lr_scales(Classifier(), {}).values()) == {1.0}
    assert describe_groups(Classifier(), {}, layer_decay=1.0) is None
    said = describe_groups(Classifier(), {}, layer_decay=0.5)
    assert said is not None
    assert "learn at 0.0625 × train.lr" in said


def test_the_top_blocks_and_the_pooler_begin_anew() -> None:
    model = Classifier()
    assert begun_anew(model, 0) == set()
    parts = {".".join(name.split(".")[:4]) for name in begun_anew(model, 2)}
    assert {part for part in parts if "layers" in part} == {
        "body.encoder.layers.1",
        "body.encoder.layers.2",
    }
    assert parts - {part for part in parts if "layers" in part} == {
        "body.pooler.linear.weight",
        "body.pooler.linear.bias",
    }


def test_more_blocks_than_there_are_and_a_model_without_a_body_are_refused() -> None:
    with pytest.raises(UserError, match="reinit_layers=4 is more than the 3 blocks there are"):
        begun_anew(Classifier(), BLOCKS + 1)
    with pytest.raises(UserError, match=r"train\.layer_decay is for models that have blocks"):
        lr_scales(nn.Linear(2, 2), {}, layer_decay=0.9)


def test_a_frozen_body_costs_its_forward_alone() -> None:
    model = Classifier()
    freeze(model, ["body"])
    encoded = model.body(torch.randint(1, 10, (2, 6)))
    assert not encoded.hidden.requires_grad
    assert encoded.summary.grad_fn is None
    model.output(encoded.summary).sum().backward()
    trained = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert trained == {"output.weight", "output.bias"}
