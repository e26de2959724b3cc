"""R-Drop: two readings of a batch, and what they differ."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Config
from regard.data.batches import TARGETS, collate
from regard.tasks import Translate
from regard.training.r_drop import ROWS, disagreement, r_drop, r_drop_reference


@given(
    rows=st.integers(1, 5),
    length=st.sampled_from([1, 7, ROWS]),
    classes=st.integers(2, 40),
    smoothing=st.sampled_from([0.0, 0.1]),
    alpha=st.sampled_from([1e-6, 1.0, 5.0]),
    seed=st.integers(0, 1000),
)
def test_the_written_out_gradient_is_that_of_the_formula(
    rows, length, classes, smoothing, alpha, seed
) -> None:
    """Whatever is padding, and whether or not the positions divide into equal parts."""
    torch.manual_seed(seed)
    logits, targets = (
        torch.randn(2 * rows, length, classes),
        torch.randint(0, classes, (rows, length)),
    )

    def loss_and_gradient(loss) -> tuple[torch.Tensor, torch.Tensor]:
        read = (logits * 3).requires_grad_()
        value = loss(read, targets, alpha=alpha, smoothing=smoothing)
        (value / 7).backward()
        assert read.grad is not None
        return value.detach(), read.grad

    for fast, written_out in zip(
        loss_and_gradient(r_drop), loss_and_gradient(r_drop_reference), strict=True
    ):
        torch.testing.assert_close(fast, written_out, atol=1e-5, rtol=1e-5)


def test_scores_of_low_precision_get_a_gradient_of_low_precision() -> None:
    logits, targets = torch.randn(4, 3, 9, dtype=torch.bfloat16), torch.randint(0, 9, (2, 3))
    low, high = logits.clone().requires_grad_(), logits.float().requires_grad_()
    losses = [r_drop(read, targets, alpha=5.0, smoothing=0.1) for read in (low, high)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(low.grad, high.grad.bfloat16())


def test_matrix_products_of_low_precision_leave_it_as_it_is() -> None:
    logits, targets = torch.randn(4, 3, 9), torch.randint(0, 9, (2, 3))
    gradients = []
    for low in (True, False):
        read = logits.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
            r_drop(read, targets, alpha=5.0).backward()
        gradients.append(read.grad)
    assert torch.equal(*gradients)


def test_second_derivatives_are_refused() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = r_drop(logits, torch.tensor([[1, 2, 3]]), alpha=1.0)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(loss, logits, create_graph=True)


def test_disagreement_is_the_mean_of_both_divergences_where_counted() -> None:
    logits, others = torch.randn(2, 2, 3, 5).unbind()
    counted = torch.tensor([[True, True, False], [True, False, False]])
    log_p, log_q = (F.log_softmax(part[counted], -1) for part in (logits, others))
    there = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    back = F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    torch.testing.assert_close(disagreement(logits, others, counted=counted), (there + back) / 2)
    assert disagreement(logits, logits, counted=counted) == 0


@pytest.mark.parametrize("kind", ["transformer", "gru"])
def test_r_drop_without_dropout_is_the_loss_itself(kind: str) -> None:
    """Both passes then agree; with dropout they do not, and the loss is larger."""
    batch = collate([[5, 6, 7], [8]], [[7, 6, 5], [8]])

    def loss(dropout: float, alpha: float) -> float:
        torch.manual_seed(0)
        config = Config(
            data={"train": "sort", "valid": "sort", "test": "sort"},
            train={"steps": 1, "batch_size": 2, "label_smoothing": 0.1, "r_drop": alpha},
            model={"kind": kind, "dropout": dropout, "d_model": 16, "d_ff": 32, "n_heads": 2},
        )
        task = Translate.learn(config)
        sums = task.loss(task.build_model().train(), batch, {})
        assert sums.tokens == batch.tokens
        return sums[TARGETS].loss.item()

    assert loss(0.0, 5.0) == pytest.approx(loss(0.0, 0.0), rel=1e-6)
    assert loss(0.3, 5.0) > loss(0.3, 1e-6) + 0.01
