"""The loss: a sum over target tokens, divided once by their count."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Config
from regard.data.batches import collate
from regard.tasks import Translate
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop
from regard.training.loss import Sums, cross_entropy, cross_entropy_reference


@given(
    rows=st.integers(1, 6),
    classes=st.integers(2, 9),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 1000),
)
def test_fused_cross_entropy_equals_the_written_out_one(rows, classes, smoothing, seed) -> None:
    torch.manual_seed(seed)
    logits, targets = torch.randn(2, rows, classes) * 3, torch.randint(0, classes, (2, rows))
    torch.testing.assert_close(
        cross_entropy(logits, targets, smoothing=smoothing),
        cross_entropy_reference(logits, targets, smoothing=smoothing),
        atol=1e-5,
        rtol=1e-5,
    )


def test_smoothing_spreads_over_all_classes_the_target_among_them() -> None:
    logits, target = torch.tensor([[1.0, 2.0, 0.5, -1.0]]), torch.tensor([1])
    log_p = F.log_softmax(logits, -1)[0]
    by_hand = -(0.8 + 0.2 / 4) * log_p[1] - 0.2 / 4 * (log_p[0] + log_p[2] + log_p[3])
    torch.testing.assert_close(cross_entropy_reference(logits, target, smoothing=0.2), by_hand)


def test_padding_does_not_count() -> None:
    logits = torch.randn(1, 3, 5)
    some = cross_entropy(logits[:, :2], torch.tensor([[3, 4]]))
    torch.testing.assert_close(cross_entropy(logits, torch.tensor([[3, 4, 0]])), some)


def test_sums_add_and_divide_once() -> None:
    total = Sums.of(6.0, 2, 1) + Sums.of(torch.tensor(2.0), 6, torch.tensor(5))
    assert (total.mean_loss, total.accuracy) == (1.0, 0.75)


@pytest.mark.parametrize(("pieces", "smoothing"), [(1, 0.0), (4, 0.0), (16, 0.1)])
def test_one_batch_of_16_equals_4_batches_of_4(pieces: int, smoothing: float) -> None:
    """The same loss, gradient norm and weights afterwards, though the pieces differ in length."""
    config = Config(
        data={"train": "sort", "valid": "sort", "test": "sort"},
        train={"steps": 1, "batch_size": 16, "label_smoothing": smoothing},
        model={"dropout": 0.0, "d_model": 16, "d_ff": 32, "n_heads": 2},
    )
    task = Translate.learn(config)
    digits = torch.randint(4, 14, (16, 20)).tolist()
    rows = [row[: 2 + i] for i, row in enumerate(digits)]

    def after(parts: int) -> tuple[float, float, torch.Tensor]:
        model = task.build_model()
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
        loop = Loop(model, task.batches(), WholeBatch(task.loss), optimiser, lambda step: 1.0, 1)
        size = 16 // parts
        batches = [collate(rows[i : i + size], rows[i : i + size]) for i in range(0, 16, size)]
        loop.update(model, {str(place): batch for place, batch in enumerate(batches)})
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        return loop.latest.mean_loss, loop.gradient_norm, weights

    whole, parted = after(1), after(pieces)
    assert whole[0] == pytest.approx(parted[0], rel=1e-6)
    assert whole[1] == pytest.approx(parted[1], rel=1e-5)
    torch.testing.assert_close(whole[2], parted[2], atol=1e-6, rtol=1e-5)
