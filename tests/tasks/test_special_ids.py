"""Special ids belong to the tokenizer: where they stand in the vocabulary changes nothing."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from regard import config
from regard.config import Decode
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.runs.run import load, make_engine
from regard.runs.trainer import train
from regard.tasks import Classify, LanguageModelling, Request, Task, Translate

ENGINE = make_engine(device="cpu")
SMALL = ["model.d_model=16", "model.n_layers=1"]
QUIET = ["model.dropout=0", "data.epoch_size=500", "train.batch_tokens=null", "train.batch_size=8"]
TASKS = {
    "transformer": ("sort", ["model.kind=transformer", "model.tie_embeddings=all"]),
    "gru": ("sort", ["model.kind=gru", "model.tie_embeddings=none"]),
    "classify": ("parity", ["model.kind=lstm", "train.metric=accuracy", "data.curriculum=0"]),
    "classify, Transformer": ("parity", ["model.kind=transformer", "data.curriculum=0"]),
    "classify, CNN": ("parity", ["model.kind=cnn", "model.filters=4", "data.curriculum=0"]),
    "classify, bag": ("parity", ["model.kind=bag", "data.curriculum=0"]),
    "lm": ("sort", ["task=lm", "model.kind=rnn", "train.metric=loss"]),
}


def turned(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer with every id n as V − 1 − n: id 0 is a word, and padding the last."""
    content = json.loads(tokenizer.json)
    vocabulary = content["model"]["vocab"]
    last = len(vocabulary) - 1
    content["model"]["vocab"] = {token: last - number for token, number in vocabulary.items()}
    return Tokenizer(json.dumps(content))


def both(name: str) -> tuple[Task, Task]:
    """A task, and the same with its ids turned round."""
    recipe, settings = TASKS[name]
    kind = name.partition(",")[0]
    plain = {"classify": Classify, "lm": LanguageModelling}.get(kind, Translate).learn(
        config.load(recipe, [*SMALL, *QUIET, *settings])
    )
    changed = turned(plain.tokenizer)
    others = {"classify": lambda: (plain.labels,), "lm": tuple}.get(kind, lambda: (changed,))()
    return plain, type(plain)(plain.config, changed, *others)


def with_turned_vocabulary(model: nn.Module, other: nn.Module, vocab: int) -> None:
    """The weights of one model in the other, the rows that belong to tokens turned round."""
    weights = {
        name: weight.flip(0) if weight.size(0) == vocab and weight.dim() == 2 else weight
        for name, weight in model.state_dict().items()
    }
    other.load_state_dict(weights)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_trains_and_predicts_the_same_wherever_its_special_ids_stand(name: str) -> None:
    plain, other = both(name)
    vocab = len(plain.tokenizer)
    assert (plain.tokenizer.padding, other.tokenizer.padding) == (0, vocab - 1)
    assert other.tokenizer.tokens([0])[0].isdigit()
    models = [plain.build_model(), other.build_model()]
    with_turned_vocabulary(*models, vocab)
    losses: list[list[float]] = []
    for task, model in zip((plain, other), models, strict=True):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.02)
        carried: dict = {}
        losses.append([])
        for batch, _ in zip(task.batches().epoch(0), range(6), strict=False):
            (sums,) = task.loss(model, batch, carried).values()
            optimiser.zero_grad()
            (sums.loss / batch.tokens).backward()
            optimiser.step()
            losses[-1].append(sums.loss.item() / batch.tokens)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][0] != pytest.approx(losses[0][-1], rel=1e-4)
    request = Request(["3 1 2", "0 9", "5 5 5 5 0"], Decode(max_new_tokens=8))
    answers = [
        task.predict(model.eval(), request, engine=ENGINE)
        for task, model in zip((plain, other), models, strict=True)
    ]
    assert [p.outputs for p in answers[0].predictions] == [
        p.outputs for p in answers[1].predictions
    ]
    assert answers[0].counts == answers[1].counts


def test_special_ids_are_read_from_the_file_or_given() -> None:
    tokenizer = Tokenizer.train(["a b"], vocab_size=9)
    assert tokenizer.special == SpecialIds(padding=0, start=1, end=2, unknown=3)
    assert tokenizer.never_generated == (0, 1, 3)
    other = turned(tokenizer)
    assert other.special == SpecialIds(padding=5, start=4, end=3, unknown=2)
    assert other.encode(["a x </s>"]) == [[1, 2, 2]]
    assert other.decode([4, 1, 0, 3, 5]) == "a b"
    assert other.first_unknown("a x") == "x"
    alone = Tokenizer(tokenizer.json, SpecialIds(end=2))
    assert (alone.padding, alone.start, alone.unknown) == (None, None, None)
    assert alone.never_generated == ()
    assert alone.special.first == 2


def test_special_ids_that_are_given_are_stored_with_the_tokenizer() -> None:
    plain = Tokenizer.train(["a b é"], vocab_size=9)
    given = Tokenizer(plain.json, SpecialIds(end=2))
    again = Tokenizer.read({"tokenizer.json": given.json}, "tokenizer.json")
    assert again.special == SpecialIds(end=2)
    assert (again.json, again.hash) == (given.json, given.hash)
    assert again.encode(["a é b"]) == plain.encode(["a é b"])
    assert given.hash != plain.hash
    json.loads(given.library_json)
    assert "special_ids" not in given.library_json
    assert Tokenizer(given.json, SpecialIds(end=4)).special == SpecialIds(end=4)


def test_a_tokenizer_with_its_own_special_ids_is_stored_as_it_is() -> None:
    plain = Tokenizer.train(["a b"], vocab_size=9)
    assert Tokenizer(plain.json, plain.special).json == plain.json == plain.library_json


@pytest.mark.parametrize(
    "stored", ['{"end": 99}', '{"start": 1}', '{"end": "2"}', "[2]", '{"x": 1}']
)
def test_wrong_special_ids_in_a_file_are_refused(stored: str) -> None:
    content = json.loads(Tokenizer.train(["a b"], vocab_size=9).json)
    text = json.dumps(content | {"special_ids": json.loads(stored)})
    with pytest.raises(ValueError, match="is not a tokenizer"):
        Tokenizer.read({"x.json": text}, "x.json")


@pytest.mark.parametrize("other", ["padding", "unknown"])
def test_an_end_that_is_also_padding_or_unknown_is_refused(other: str) -> None:
    with pytest.raises(ValueError, match="id 2 ends a text"):
        SpecialIds(end=2, **{other: 2})


def test_without_an_unknown_token_no_text_is_encoded_to_the_end() -> None:
    """As GPT-2: bytes, and `<|endoftext|>`, which the library looks for in every text."""
    content = json.loads(Tokenizer.train(["hello world"] * 3, vocab_size=300, kind="bytes").json)
    end = max(content["model"]["vocab"].values()) + 1
    token = {"id": end, "content": "<|endoftext|>", "special": True}
    token |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    text = "hello<|endoftext|>world"
    for special in (True, False):  # of the library's own kinds of added tokens
        added = [token | {"special": special}]
        tokenizer = Tokenizer(json.dumps(content | {"added_tokens": added}), SpecialIds(end=end))
        (ids,) = tokenizer.encode([text])
        assert end not in ids
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode([*ids, end]) == text


def test_without_an_unknown_token_a_word_that_is_the_end_is_spelled() -> None:
    tokenizer = Tokenizer.train(["a b < / s >"], vocab_size=20)
    bare = Tokenizer(tokenizer.json, SpecialIds(end=2))
    (ids,) = bare.encode(["a </s> b"])
    assert bare.tokens(ids) == ["a", "<", "/", "s", ">", "b"]


@pytest.mark.parametrize("name", ["transformer", "classify", "lm"])
def test_a_run_with_special_ids_that_were_given_reopens_and_predicts_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Tokenizer.train
    given = SpecialIds(end=2) if name != "classify" else SpecialIds(end=2, unknown=3)
    monkeypatch.setattr(
        Tokenizer, "train", lambda *texts, **keys: Tokenizer(learned(*texts, **keys).json, given)
    )
    recipe, settings = TASKS[name]
    steps = ["train.steps=4", "train.eval_every=4", "train.save_every=2"]
    configuration = config.load(recipe, [*SMALL, *QUIET, *settings, *steps])
    run, _ = train(configuration, tmp_path / "run")
    monkeypatch.undo()
    again = load(tmp_path / "run")
    assert again.tokenizer.special == given
    assert "special_ids" in (tmp_path / "run" / "tokenizer.json").read_text()
    lines = ["3 1 2", "0 9"]
    options = {} if name == "classify" else {"max_new_tokens": 5}
    assert run.predict(lines, **options) == again.predict(lines, **options)
    train(configuration, tmp_path / "run", resume=True)


def test_a_vocabulary_without_an_end_is_refused() -> None:
    content = json.loads(Tokenizer.train(["a b"], vocab_size=9).json)
    del content["model"]["vocab"]["</s>"]
    with pytest.raises(ValueError, match="no other id is given for the end of a text"):
        Tokenizer(json.dumps(content))


@pytest.mark.parametrize("name", ["lm", "transformer", "gru"])
def test_without_a_padding_id_the_loss_is_the_same(name: str) -> None:
    """The tokens of every row are the same; only the padding of the rows differs."""
    plain, _ = both(name)
    content = plain.tokenizer.json
    bare = Tokenizer(content, SpecialIds(start=1, end=2, unknown=3))
    others = () if name == "lm" else (bare,)
    other = type(plain)(plain.config, bare, *others)
    model, last = plain.build_model().eval(), plain.batches().count(0) - 1
    for start in (0, last):  # the last batch of a text is not full
        batch, same = (next(task.batches().epoch(0, start=start)) for task in (plain, other))
        sums = [
            part
            for task, rows in ((plain, batch), (other, same))
            for part in task.loss(model, rows, {}).values()
        ]
        assert sums[0].loss.item() == pytest.approx(sums[1].loss.item(), rel=1e-5)
        assert sums[0].correct == sums[1].correct
