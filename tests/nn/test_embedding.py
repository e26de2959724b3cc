"""Embeddings: what padding is, and what a training step does not copy."""

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.nn import OutputProjection, TokenEmbedding

VOCAB, D_MODEL = 7, 8


def tied(padding: int | None = 0, **options) -> tuple[TokenEmbedding, OutputProjection]:
    embedding = TokenEmbedding(VOCAB, D_MODEL, padding=padding, **options)
    return embedding, OutputProjection(VOCAB, D_MODEL, tied=embedding)


def gradient(embedding: TokenEmbedding, output, tokens: torch.Tensor) -> torch.Tensor:
    embedding.weight.grad = None
    logits = output(embedding(tokens))
    torch.nn.functional.cross_entropy(logits[0].float(), torch.tensor([4, 5, 6])).backward()
    return embedding.weight.grad


def test_any_id_may_be_padding_and_none_need_be() -> None:
    tokens = torch.tensor([[3, 0, 6]])
    embedding, output = tied(padding=6)
    assert embedding.weight[6].abs().max() == 0
    assert embedding.weight[0].abs().max() > 0
    of_padding = gradient(embedding, output, tokens)
    assert of_padding[6].abs().max() == 0
    assert of_padding[0].abs().max() > 0
    embedding, output = tied(padding=None)
    assert gradient(embedding, output, tokens).abs().amax(dim=1).min() > 0


def test_an_embedding_may_be_left_unscaled() -> None:
    embedding = TokenEmbedding(VOCAB, 16, padding=None, scaled=False)
    assert embedding(torch.tensor([[3]]))[0, 0].equal(embedding.weight[3])


def test_the_gradient_is_that_of_a_copy_without_the_padding_row() -> None:
    tokens = torch.tensor([[3, 0, 6]])
    embedding, output = tied()

    def by_copying(x: torch.Tensor) -> torch.Tensor:
        weight = embedding.weight
        return x @ torch.cat([weight[:1].detach(), weight[1:]]).T

    expected = gradient(embedding, by_copying, tokens).clone()
    torch.testing.assert_close(gradient(embedding, output, tokens), expected)


class NewMatrices(TorchDispatchMode):
    """Counts the operations whose output is a new tensor of V × D."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if isinstance(output, torch.Tensor) and output.shape == (VOCAB, D_MODEL):
            storages = [x.untyped_storage() for x in args if isinstance(x, torch.Tensor)]
            if all(output.untyped_storage().data_ptr() != x.data_ptr() for x in storages):
                self.names.append(str(func))
        return output


def test_a_training_step_copies_no_matrix_of_the_vocabulary() -> None:
    embedding, output = tied()
    tokens = torch.tensor([[3, 0, 6]])
    with NewMatrices() as forward:
        logits = output(embedding(tokens))
    assert forward.names == []
    with NewMatrices() as backward:
        logits.sum().backward()
    # One gradient by each way, and their sum: nothing else.
    assert len(backward.names) <= 3, backward.names


@pytest.mark.parametrize("padding", [0, 5])
def test_the_padding_row_stays_zero_under_autocast(padding: int) -> None:
    embedding, output = tied(padding=padding)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (
            gradient(embedding, output, torch.tensor([[3, padding, 6]]))[padding].abs().max() == 0
        )


def test_the_padding_row_stays_zero_when_compiled() -> None:
    """In a process of its own: the shape checker cannot be compiled."""
    program = """
import torch
from regard.nn import OutputProjection, TokenEmbedding
embedding = TokenEmbedding(7, 8, padding=0)
output = OutputProjection(7, 8, tied=embedding)
compiled = torch.compile(output, backend="aot_eager", fullgraph=True)
gradients = []
for function in (output, compiled):
    embedding.weight.grad = None
    (function(embedding(torch.tensor([[3, 0, 6]]))) * torch.arange(7.0)).sum().backward()
    gradients.append(embedding.weight.grad)
torch.testing.assert_close(*gradients)
assert gradients[1][0].abs().max() == 0
assert gradients[1][1].abs().max() > 0
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
