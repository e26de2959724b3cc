"""TextClassifier and the encoders made for it: convolutions over words, and a bag of words."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.models import BagOfWords, Bert, RecurrentEncoder, TextClassifier, TextCNN
from regard.models.bag_of_words import first_of_each
from regard.nn import Trace
from regard.nn.pooling import KINDS
from regard.nn.word_convolution import WordConvolution

VOCAB = 12
BODIES = {
    "bert": lambda: Bert(VOCAB, d_model=8, n_layers=1, n_heads=2, d_ff=16, max_length=16),
    "lstm": lambda: RecurrentEncoder(VOCAB, d_model=8, bidirectional=True, padding=None),
    "cnn": lambda: TextCNN(VOCAB, d_model=6, filters=3, padding=None),
    "counts": lambda: BagOfWords(VOCAB, d_model=8, kind="counts", padding=None),
    "presence": lambda: BagOfWords(VOCAB, d_model=8, bigrams=16, padding=None),
}
rows = st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), min_size=1, max_size=4)


def model_of(name: str, pooling: str = "final") -> TextClassifier:
    torch.manual_seed(0)
    model = TextClassifier(BODIES[name](), 3, pooling=pooling).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model


def batch_of(texts: list[list[int]], filler: int, more: int = 0) -> tuple[torch.Tensor, ...]:
    longest = max(map(len, texts)) + more
    padded = [text + [filler] * (longest - len(text)) for text in texts]
    return torch.tensor(padded), torch.tensor([len(text) for text in texts])


@pytest.mark.parametrize("pooling", KINDS)
@pytest.mark.parametrize("name", BODIES)
@given(rows, st.integers(0, VOCAB - 1))
def test_a_batch_is_its_rows_one_by_one_and_padding_changes_nothing(
    name: str, pooling: str, texts: list[list[int]], filler: int
) -> None:
    model = model_of(name, pooling)
    with torch.no_grad():
        whole = model(*batch_of(texts, filler, more=2))
        singles = torch.cat([model(torch.tensor([text])) for text in texts])
    torch.testing.assert_close(whole, singles, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", BODIES)
def test_the_traced_path_is_the_fast_one_and_every_weight_learns(name: str) -> None:
    model, trace = model_of(name, "attention" if name == "lstm" else "final"), Trace()
    tokens, lengths = batch_of([[1, 2, 3, 2, 3], [4, 4], [5]], filler=7)
    logits = model(tokens, lengths, trace=trace)
    torch.testing.assert_close(logits, model(tokens, lengths))
    torch.testing.assert_close(trace["output"]["logits"], logits.detach())
    logits.square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_a_filter_sees_its_words_wherever_they_stand() -> None:
    part = WordConvolution(2, filters=1, widths=(2,))
    with torch.no_grad():
        part.filters[0].weight.copy_(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
        part.filters[0].bias.zero_()
    first, second = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    together = torch.stack([second, first, second, first])[None]
    apart = torch.stack([second, second, first, first])[None]
    mask = torch.ones(1, 4, dtype=torch.bool)
    assert part(together, mask)[1].tolist() == [[2.0]]
    assert part(apart, mask)[1].tolist() == [[1.0]]


@pytest.mark.parametrize("fast", [True, False])
def test_convolution_is_torchs_over_a_text_with_zeros_around_it(fast: bool) -> None:
    part = WordConvolution(4, filters=3, widths=(1, 4, 5), fast=fast)
    x = torch.randn(2, 6, 4)
    hidden, largest = part(x, torch.ones(2, 6, dtype=torch.bool))
    expected = [
        F.conv1d(F.pad(x.mT, (before, after)), conv.weight, conv.bias).relu().mT
        for conv, before, after in zip(part.filters, (0, 1, 2), (0, 2, 2), strict=True)
    ]
    torch.testing.assert_close(hidden, torch.cat(expected, dim=-1))
    torch.testing.assert_close(largest, torch.cat(expected, dim=-1).amax(dim=1))


def test_words_count_each_time_or_once_and_their_order_counts_in_bigrams_alone() -> None:
    ordered, other = torch.tensor([[1, 2, 1, 3]]), torch.tensor([[3, 1, 2, 1]])
    once = torch.tensor([[1, 2, 3]])
    counts, presence = (
        BagOfWords(VOCAB, d_model=8, kind=kind, padding=None) for kind in ("counts", "presence")
    )
    expected = F.embedding(ordered, counts.embedding.weight).sum(dim=1)
    torch.testing.assert_close(counts(ordered).summary, expected)
    torch.testing.assert_close(counts(other).summary, expected)
    for same in (other, once):
        torch.testing.assert_close(presence(ordered).summary, presence(same).summary)
    with_pairs = BagOfWords(VOCAB, d_model=8, bigrams=64, padding=None)
    assert not torch.allclose(with_pairs(ordered).summary, with_pairs(other).summary)


def test_the_first_of_each_id_is_found_among_real_tokens_alone() -> None:
    ids = torch.tensor([[5, 0, 5, 0, 7], [0, 0, 0, 0, 0]])
    real = torch.tensor([[True, True, True, True, False], [True, True, False, False, False]])
    expected = [[True, True, False, False, False], [True, False, False, False, False]]
    assert first_of_each(ids, real).tolist() == expected
