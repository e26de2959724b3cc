"""A key that a person sets and that would do nothing is refused, with the reason."""

from pathlib import Path

import pytest

from regard import config
from regard.config.applies import NEEDS, SECTIONS, keys_of, refuse_idle, unmet
from regard.config.data_keys import ENDLESS
from regard.config.data_keys import GENERATORS as NAMES
from regard.data.generators import GENERATORS, Endless
from regard.system.errors import UserError
from regard.tasks import TASKS
from regard.tasks.pair_task import PairTask

LM = ("task=lm", "model.kind=gru", "train.metric=loss")

IDLE = {
    ("parity", "model.n_heads=7"): "model.n_heads=7 would do nothing: it is for "
    "model.kind=transformer, gpt or bert, not for model.kind=lstm. Leave it out.",
    ("parity", "model.positions=rotary"): "it is for model.kind=transformer",
    ("parity", "model.d_ff=7"): "it is for model.kind=transformer",
    ("parity", "model.tie_embeddings=none"): "it is for task=translate or lm",
    ("parity", "decode.beam=5"): "it is for task=translate or lm, not for task=classify",
    ("parity", "tokenizer.joint=false"): "it is for task=translate",
    ("parity", "data.scores=translation"): "it is for task=translate",
    ("sort", "model.attention=luong-dot"): "it is for model.kind=rnn, gru or lstm",
    ("sort", "model.bidirectional=false"): "it is for model.kind=rnn, gru or lstm",
    ("sort", "model.pooling=max"): "it is for task=classify",
    ("sort", "model.recurrent_init=uniform"): "it is for model.kind=rnn, gru or lstm",
    ("sort", "model.rotary_base=500"): "it is for model.positions=rotary, not for "
    "model.positions=sinusoidal",
    ("sort", "model.rotary_pairing=interleaved"): "it is for model.positions=rotary",
    ("sort", "train.teacher_forcing=0.5"): "it is for model.kind=rnn, gru or lstm",
    ("sort", "train.average_of=best"): "it is for the average of several evaluations",
    ("sort", "data.directory=here"): "not for the generator sort, which needs no directory",
    ("sort", "data.source=en"): "task=translate with files, and for the generator numbers",
    ("sort", "data.label=1"): "it is for task=classify, match or lm",
    ("sort", "data.question=1"): "it is for task=span, not for task=translate",
    ("sort", "data.words=1"): "it is for task=tag, not for task=translate",
    ("multi30k", "data.epoch_size=9"): "it is for data.train=sort, copy",
    ("pronounce", "data.fresh=false"): "not for data.train=cmudict",
    ("multi30k", "data.split_seed=9"): "it is for generators, and for files with data.held_out",
    ("sort", *LM, "data.document_mask=true"): "it is for model.kind=gpt, not for model.kind=gru",
    ("sort", *LM, "decode.cut_prompt=true"): "it is for model.kind=gpt, not for model.kind=gru",
    ("sort", "data.documents=files"): "it is for task=lm",
    ("sort", *LM, "model.bidirectional=false"): "it is for task=translate, classify, match or tag",
}


@pytest.mark.parametrize("words", IDLE, ids=", ".join)
def test_a_key_that_would_do_nothing_is_refused(words: tuple[str, ...]) -> None:
    recipe, *settings = words
    with pytest.raises(UserError) as error:
        config.load(recipe, settings)
    assert str(error.value).startswith(f"recipe {recipe}: {settings[-1].partition('=')[0]}=")
    assert IDLE[words] in str(error.value)


USED = [
    ("parity", "model.n_heads=4"),  # its default
    ("sort", "model.kind=lstm", "model.attention=luong-dot"),
    ("sort", "model.positions=rotary", "model.rotary_base=500"),
    ("sort", "train.average=3", "train.average_of=best"),
    ("numbers", "data.source=de"),
    ("multi30k", "data.directory=here", "data.target=fr"),
    ("multi30k", "data.held_out=0.1", "data.valid=train", "data.split_seed=9"),
    ("multi30k", "model.kind=gru"),  # the recipe's own d_ff stays there for a Transformer
    ("sort", "decode.beam=7"),  # for whoever asks for beam search later
]


@pytest.mark.parametrize("words", USED, ids=", ".join)
def test_a_key_that_does_something_or_has_its_default_is_accepted(words: tuple[str, ...]) -> None:
    config.load(words[0], words[1:])


def test_keys_of_a_file_are_those_of_a_person(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = "data: {train: sort, valid: sort, test: sort}\ntrain: {steps: 2, batch_size: 3}\n"
    path.write_text(text + "model: {kind: gru, d_ff: 512}\n")
    with pytest.raises(UserError, match=r"mine.yaml: model.d_ff=512 would do nothing"):
        config.load(str(path))
    config.load(str(path), ["model.kind=transformer"])
    path.write_text(text + "model: {d_ff: 512}\n")
    config.load(str(path), ["model.kind=gru"])  # to compare the two kinds


OLD = sorted((Path(__file__).parent.parent / "runs" / "old").iterdir())


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_the_file_of_a_run_trains_again(path: Path) -> None:
    config.load(str(path / "config.yaml"))


def test_other_data_of_a_run_is_checked_too() -> None:
    resolved = config.load("sort")
    with pytest.raises(UserError, match=r"run: data.source='en' would do nothing"):
        config.override(resolved, ["data.source=en"], where="run")
    config.override(resolved, ["data.source=en", "data.test=more.tsv"], where="run")


def test_every_key_of_the_table_is_a_key() -> None:
    known = {f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields}
    assert set(NEEDS) <= known


def test_the_names_of_generators_are_those_that_there_are() -> None:
    assert set(NAMES) == set(GENERATORS)
    assert set(ENDLESS) == {name for name, kind in GENERATORS.items() if isinstance(kind, Endless)}


def test_a_task_may_be_given_the_columns_that_it_reads() -> None:
    files = dict.fromkeys(("train", "valid", "test"), "pairs.tsv")
    for name, task in TASKS.items():
        for field in task.FIELDS if issubclass(task, PairTask) else ():
            assert unmet(f"data.{field.name}", {"task": name, "data": files}) is None


@pytest.mark.parametrize("name", config.recipes())
def test_a_recipe_has_no_idle_key_but_those_for_another_kind_of_model(name: str) -> None:
    resolved = config.load(name)
    keys = [
        key
        for key in keys_of(config.read_yaml(config.recipes()[name]))
        if key not in ("model.n_heads", "model.d_ff")
    ]
    refuse_idle(resolved, keys, where=name)
