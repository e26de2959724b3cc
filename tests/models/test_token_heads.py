"""Taggers and span finders on every encoder: padding changes nothing, and every weight trains."""

import pytest
import torch

from regard import config
from regard.models import SpanFinder, Tagger
from regard.models.build import text_encoder
from regard.nn.crf import Transitions

TOKENS = torch.tensor([[4, 5, 6, 7, 8], [7, 4, 0, 0, 0], [5, 6, 4, 0, 0]])
LENGTHS = torch.tensor([5, 2, 3])
KINDS = ("bert", "transformer", "lstm", "gru")


def made(kind: str, *, head: str) -> Tagger | SpanFinder:
    model = {"kind": kind, "d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "dropout": 0.0}
    whole = config.Config.model_construct(
        model=config.Model(**model), data=config.Data(max_length=16)
    )
    torch.manual_seed(1)
    body = text_encoder(whole, vocab=12, padding=0)
    return Tagger(body, 3, dropout=0.0, crf=True) if head == "tags" else SpanFinder(body)


@pytest.mark.parametrize("head", ["tags", "span"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_rows_one_by_one(kind: str, head: str) -> None:
    model = made(kind, head=head).eval()
    together = model(TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(TOKENS[row, None, :length])
        if head == "tags":
            torch.testing.assert_close(alone[0], together[row, :length])
        else:
            torch.testing.assert_close(alone.start[0], together.start[row, :length])
            torch.testing.assert_close(alone.end[0], together.end[row, :length])


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_of_a_tagger_trains(kind: str) -> None:
    model = made(kind, head="tags")
    tags = torch.tensor([[0, 1, 2, 1, 0], [2, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    (-model.crf(model(TOKENS, LENGTHS), tags, LENGTHS).sum()).backward()
    unused = {"body.embedding.segments.weight", "body.pooler.linear.weight"}
    for name, weight in model.named_parameters():
        if name in unused | {"body.pooler.linear.bias"}:
            continue
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


def test_best_tags_are_allowed_with_and_without_learned_transitions() -> None:
    model = made("gru", head="tags").eval()
    blocked = torch.zeros(3, 3)
    blocked[1] = blocked[0, 2] = -torch.inf  # nothing follows tag 1, and 2 does not follow 0
    allowed = Transitions(torch.tensor([0.0, 0.0, -torch.inf]), blocked, torch.zeros(3))
    logits = torch.zeros(1, 4, 3)
    logits[:, :, 1:] = 5.0
    for crf in (model.crf, None):
        model.crf = crf
        assert model.best(logits, torch.tensor([4]), allowed).tolist() == [[0, 0, 0, 1]]
