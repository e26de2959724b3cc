"""Special ids belong to the tokenizer: where they stand in the vocabulary changes nothing."""

import json

import pytest
import torch
from torch import nn

from regard import config
from regard.config import Decode
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.runs.run import make_engine
from regard.tasks import Classify, LanguageModelling, Request, Task, Translate

ENGINE = make_engine(device="cpu")
SMALL = ["model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.n_layers=1"]
QUIET = ["model.dropout=0", "data.epoch_size=500", "train.batch_tokens=null", "train.batch_size=8"]
TASKS = {
    "transformer": ("sort", ["model.kind=transformer", "model.tie_embeddings=all"]),
    "gru": ("sort", ["model.kind=gru", "model.tie_embeddings=none"]),
    "classify": ("parity", ["model.kind=lstm", "train.metric=accuracy", "data.curriculum=0"]),
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
    plain = {"classify": Classify, "lm": LanguageModelling}.get(name, Translate).learn(
        config.load(recipe, [*SMALL, *QUIET, *settings])
    )
    changed = turned(plain.tokenizer)
    others = {"classify": lambda: (plain.labels,), "lm": tuple}.get(name, lambda: (changed,))()
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
