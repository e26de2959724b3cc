"""embed: texts in, vectors out."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.models import Bert, TextEmbedder
from regard.models.text_embedder import POOLS
from regard.system.errors import UserError
from tests.command import refused
from tests.encoders import TEXTS, embedder_run

TOKENS = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]])
LENGTHS = torch.tensor([5, 3])


@pytest.fixture
def embedder(tmp_path: Path) -> Path:
    return embedder_run(tmp_path / "embedder")


@pytest.mark.parametrize("pooling", POOLS)
def test_a_vector_is_the_pooled_states_of_real_tokens(pooling: str) -> None:
    body = Bert(9, d_model=8, n_layers=1, n_heads=2, d_ff=16, max_length=8)
    model = TextEmbedder(body, pooling=pooling, normalize=False).eval()
    expected = {
        "cls": lambda encoded: encoded.hidden[:, 0],
        "mean": lambda encoded: encoded.hidden.mean(dim=1),
        "max": lambda encoded: encoded.hidden.amax(dim=1),
        "final": lambda encoded: encoded.summary,
    }[pooling]
    vectors = model(TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = TOKENS[row : row + 1, :length]
        torch.testing.assert_close(vectors[row : row + 1], expected(body(alone)))
        torch.testing.assert_close(model(alone), expected(body(alone)))
    other = TOKENS.masked_fill(TOKENS == 0, 4)
    torch.testing.assert_close(model(other, LENGTHS), vectors, atol=0, rtol=0)
    unit = TextEmbedder(body, pooling=pooling).eval()(TOKENS, LENGTHS)
    torch.testing.assert_close(unit, F.normalize(vectors))


def test_pooler_and_first_hidden_state_are_not_the_same() -> None:
    body = Bert(9, d_model=8, n_layers=1, n_heads=2, d_ff=16, max_length=8).eval()
    first, final = (TextEmbedder(body, pooling=pool)(TOKENS) for pool in ("cls", "final"))
    assert not torch.allclose(first, final)


def test_predict_prints_the_vector_of_each_line(call, embedder: Path) -> None:
    lines = [*TEXTS, "", "day"]
    predicted = call("predict", embedder, "--json", stdin="\n".join(lines)).json["predictions"]
    assert [line["input"] for line in predicted] == lines
    assert predicted[4] == {"input": "", "outputs": [], "vector": []}
    vectors = np.array([line["vector"] for line in predicted if line["vector"]])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    text = call("predict", embedder, stdin="day\n").out
    np.testing.assert_allclose([float(x) for x in text.split()], vectors[-1], atol=1e-5)
    (alone,) = regard.load(embedder).predictions(["a fine day"])
    np.testing.assert_allclose(alone.vector, vectors[0], atol=1e-6)
    assert json.loads(json.dumps(alone.as_json()))["vector"] == alone.vector


def test_it_is_traced_and_verified(call, embedder: Path, few_equalities: None) -> None:
    run = regard.load(embedder)
    trace = run.trace("the bank")
    assert trace.tokens["source"][0] == "<s>"
    assert trace.tokens["source"][-1] == "</s>"
    assert list(trace.attention()) == ["body.encoder.layers.0.self_attention"]
    verified = call("verify", embedder)
    assert verified.code == 0, verified.err
    assert f"{embedder}: more padding changes nothing" in verified.out


def test_what_it_cannot_do_is_said(call, embedder: Path, tmp_path: Path) -> None:
    refused(call("evaluate", embedder, "-s", "data.test=sort"), "nothing to measure its vectors")
    refused(call("predict", embedder, stdin="a " * 15), "15 tokens, and this model reads at most")
    refused(call("train", "sort", "-s", "task=embed", "-s", "model.kind=bert"), "is not trained")
    with pytest.raises(UserError, match="a text has one vector"):
        regard.load(embedder).predictions(["a"], decoding={"n_best": 2})
    with pytest.raises(UserError, match=r"model\.pooling=attention is not available"):
        embedder_run(tmp_path / "other", pooling="attention")
    with pytest.raises(UserError, match="beam is for runs that generate text"):
        regard.load(embedder).predict(["a"], beam=3)
