"""The contrastive loss, beside its formula."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity

from regard.training.contrast import contrast


def written_out(vectors: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    total = torch.tensor(0.0)
    for i, vector in enumerate(vectors):
        errors = [
            (cosine_similarity(vector, other, dim=0) - float(classes[i] == classes[j])) ** 2
            for j, other in enumerate(vectors)
            if j != i
        ]
        total = total + (sum(errors) / len(errors) if errors else 0.0)
    return total


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_every_pair_of_a_batch_counts(rows: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(rows, width, generator=generator, requires_grad=True)
    classes = torch.randint(0, 3, (rows,), generator=generator)
    loss, expected = contrast(vectors, classes), written_out(vectors, classes)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


def test_it_is_zero_where_classes_are_orthogonal_directions() -> None:
    vectors, classes = torch.eye(3)[[0, 1, 0, 2]] * 7, torch.tensor([0, 1, 0, 2])
    assert contrast(vectors, classes) < 1e-10
    assert contrast(vectors, torch.tensor([0, 0, 1, 2])) > 1
