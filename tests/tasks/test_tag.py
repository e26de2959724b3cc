"""tag: words with tags in, valid sequences of tags out."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regard import config, look
from regard.config import Config
from regard.runs import run
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks import Request, Tag
from regard.training.loss import Sums
from tests.tasks.test_special_ids import turned, with_turned_vocabulary

CONLL = """-DOCSTART- -X- O

Ann NN {0}
Lee NN {1}
met VB O
Bob NN {0}
. . O

Paris NN {2}
met VB O
Ann NN {0}
Rome NN {2}
. . O
"""
YAML = """
task: tag
data: {train: train.txt, valid: train.txt, test: train.txt, max_length: 24, scheme: iob1}
tokenizer: {kind: wordpiece, vocab_size: 60}
model: {kind: lstm, d_model: 16, n_layers: 1, dropout: 0.1}
train: {steps: 60, eval_every: 30, batch_size: 2, lr: 0.03, warmup: 0, metric: f1}
"""


BODIES = [["model.kind=lstm"], ["model.kind=bert", "model.n_heads=2", "model.d_ff=16"]]


def folder_with(folder: Path, text: str = CONLL.format("I-PER", "I-PER", "I-LOC")) -> Path:
    (folder / "train.txt").write_text(text)
    (folder / "tag.yaml").write_text(YAML)
    return folder


def settings(folder: Path, *more: str) -> Config:
    return config.load(str(folder / "tag.yaml"), [f"data.directory={folder}", *more])


@pytest.mark.parametrize(
    "model",
    [
        ["model.kind=lstm"],
        ["model.kind=gru", "model.crf=true"],
        ["model.kind=bert", "model.n_heads=2", "model.d_ff=16"],
        ["model.kind=transformer", "model.n_heads=2", "model.d_ff=16", "model.crf=true"],
    ],
    ids=["lstm", "gru with crf", "bert", "transformer with crf"],
)
def test_it_learns_where_names_begin_and_end(tmp_path: Path, model: list[str]) -> None:
    trained, _ = train(settings(folder_with(tmp_path), *model), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    (one,) = opened.predictions(["Ann Lee met Bob ."])
    assert one.as_json() == {
        "input": "Ann Lee met Bob .",
        "outputs": ["B-PER I-PER O B-PER O"],
        "words": ["Ann", "Lee", "met", "Bob", "."],
        "tags": ["B-PER", "I-PER", "O", "B-PER", "O"],
        "entities": [
            {"type": "PER", "text": "Ann Lee", "start": 0, "end": 2},
            {"type": "PER", "text": "Bob", "start": 3, "end": 4},
        ],
    }
    report = opened.evaluate("test")
    assert report["examples"] == 2
    assert report["metrics"]["f1"] == report["metrics"]["token_accuracy"] == 1.0
    assert report["by_type"]["LOC"]["entities"] == 2
    (first, second) = opened.evaluation("test").outputs
    assert (first.target, first.output) == ("B-PER I-PER O B-PER O",) * 2
    assert trained.metrics()[-1]["train"].keys() == {"loss", "token_accuracy"}
    assert len(look.draw(opened)) >= 1
    assert second.source == "Paris met Ann Rome ."


def test_untrained_weights_never_give_an_invalid_sequence(tmp_path: Path) -> None:
    for crf in ("true", "false"):
        task = Tag.learn(settings(folder_with(tmp_path), f"model.crf={crf}"))
        model = task.build_model().eval()
        model.output.weight.data.mul_(20)
        lines = [" ".join(["Ann", "met", "Rome", "Lee", ".", "Bob"][:n] * 3) for n in range(1, 7)]
        answer = task.predict(model, Request(lines, task.config.decode), engine=Engine())
        tags = [prediction.tags for prediction in answer.predictions]
        assert any("I-" in tag for row in tags for tag in row)
        for row in tags:
            for before, tag in zip(["O", *row], row, strict=False):
                assert tag[:1] != "I" or before[2:] == tag[2:]


def test_all_schemes_teach_the_same(tmp_path: Path) -> None:
    schemes = {
        "iob1": CONLL.format("I-PER", "I-PER", "I-LOC"),
        "iob2": CONLL.format("B-PER", "I-PER", "B-LOC"),
        "bioes": CONLL.format("S-PER", "E-PER", "S-LOC").replace("S-PER", "B-PER", 1),
        "bmes": CONLL.format("S-PER", "E-PER", "S-LOC").replace("S-PER", "B-PER", 1),
    }
    read = {}
    for scheme, text in schemes.items():
        task = Tag.learn(settings(folder_with(tmp_path, text), f"data.scheme={scheme}"))
        assert task.labels.names == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
        read[scheme] = [[tag for tag in line.target if tag] for line in task.read("valid")]
    assert all(lines == read["iob1"] for lines in read.values())


@pytest.mark.parametrize(
    ("scheme", "text", "place"),
    [
        ("iob2", "a O\nb I-X\n", "2: I-X begins an entity; in iob2 that is B-"),
        ("iob1", "a O\nb B-X\n", "2: B-X does not follow an entity of its type; in iob1"),
        ("bioes", "a B-X\nb O\n", "2: O is here, and the entity before it has no end"),
        ("bioes", "c O\n\na O\nb B-X\n", "4: B-X is the last tag, and the entity before it has"),
        ("bmes", "a O\nb E-X\n", "2: E-X does not go on with an entity of its type"),
        ("bmes", "a O\nb I-X\n", "2: 'I-X' is no tag of data.scheme=bmes"),
        ("iob2", "a O\nb PER\n", "2: 'PER' is no tag of data.scheme=iob2, whose tags begin with"),
        ("iob2", "a x O\nb O\nc y O\n", "2: 2 columns where 3 are expected"),
    ],
)
def test_an_invalid_sequence_is_named_by_file_and_line(tmp_path, scheme, text, place) -> None:
    folder = folder_with(tmp_path, f"-DOCSTART- O\n\n{text}\nd O\n")
    with pytest.raises(UserError) as error:
        train(settings(folder, f"data.scheme={scheme}"), tmp_path / "run")
    number, _, sentence = place.partition(":")
    assert f"train.txt:{int(number) + 2}:{sentence}" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_invalid_sequences_are_counted_where_they_are_skipped(tmp_path: Path) -> None:
    text = CONLL.format("I-PER", "I-PER", "I-LOC") + "\nAnn NN O\nmet VB B-PER\n\nRome NN\n"
    task = Tag.learn(settings(folder_with(tmp_path, text), "data.on_bad_line=skip"))
    task.check_data()
    (sentence, *_) = task.warnings(["train"])
    assert "2 lines were left out" in sentence
    assert "1 where the tags are not valid or known (train.txt:16)" in sentence
    assert "1 where a line has not 3 columns (train.txt:18)" in sentence


def test_a_type_that_training_has_not_is_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "other.txt").write_text("Ann O\nKyoto I-ORG\n")
    with pytest.raises(UserError, match=r"other.txt:2: the tag 'B-ORG' is unknown; data.train has"):
        train(settings(folder, "data.test=other.txt"), tmp_path / "run")


def test_columns_are_chosen_by_number_or_by_the_name_in_the_first_line(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "form\tpos\tner\na b\tNN\tB-X\n\nc\tVB\tO\n")
    for columns in (["data.words=form", "data.tags=ner"], ["data.words=form", "data.tags=3"]):
        task = Tag.learn(settings(folder, "data.scheme=iob2", *columns))
        assert [line.row.source for line in task.read("valid")] == [("a b",), ("c",)]
    plain = ["data.scheme=none", "train.metric=loss"]
    task = Tag.learn(settings(folder, *plain, "data.tags=2"))
    assert task.labels.names == ["NN", "VB", "pos"]
    with pytest.raises(UserError, match=r"has no column data.tags='upos'; it has form pos ner"):
        Tag.learn(settings(folder, "data.words=form", "data.tags=upos"))
    with pytest.raises(UserError, match=r"has no column data.tags='7'; it has 3 columns"):
        Tag.learn(settings(folder, "data.tags=7"))
    with pytest.raises(UserError, match="has 3 columns: words and tags cannot be the same one"):
        Tag.learn(settings(folder, "data.tags=1"))


def test_tags_without_a_scheme_have_an_accuracy_alone(tmp_path: Path) -> None:
    more = ["data.tags=2", "data.scheme=none", "train.metric=token_accuracy"]
    made, _ = train(settings(folder_with(tmp_path), *more), tmp_path / "run")
    assert made.predict(["Ann met Bob ."]) == ["NN VB NN ."]
    assert made.evaluate("test")["metrics"].keys() == {"loss", "token_accuracy"}
    with pytest.raises(UserError, match=r"train.metric=f1 is not measured here"):
        settings(tmp_path, "data.scheme=none")


def test_chinese_characters_are_words_from_a_text_or_a_list(tmp_path: Path) -> None:
    lines = [
        {"words": "李明在北京", "tags": ["B-P", "I-P", "O", "B-L", "I-L"]},
        {"words": ["王", "红", "在", "上", "海"], "tags": "B-P I-P O B-L I-L"},
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder_with(tmp_path) / "zh.jsonl").write_text(text)
    files = [f"data.{split}=zh.jsonl" for split in ("train", "valid", "test")]
    more = ["data.unit=character", "data.scheme=iob2", "tokenizer.kind=chars"]
    made, _ = train(settings(tmp_path, *files, *more), tmp_path / "run")
    lines = [
        "王明在北京",
        '{"words": ["王", "明", "在", "北", "京"]}',
        '["王","明","在","北","京"]',
    ]
    predictions = made.predictions(lines)
    assert [prediction.words for prediction in predictions] == [list("王明在北京")] * 3
    assert len({prediction.best for prediction in predictions}) == 1
    assert made.predict(["李 明在北京"]) == ["B-P I-P O B-L I-L"]


def test_lines_that_cannot_be_tagged_are_empty_or_refused(tmp_path: Path) -> None:
    model = ["model.kind=bert", "model.n_heads=2", "model.d_ff=16"]
    task = Tag.learn(settings(folder_with(tmp_path), *model))
    model = task.build_model().eval()
    lines = ["", "Ann", "Ann " * 30, '["Ann", ""]', "Ann \udcff", '["\\ud800"]']
    request = Request(lines, task.config.decode, on_bad_line="skip")
    answer = task.predict(model, request, engine=Engine())
    assert [len(prediction.outputs) for prediction in answer.predictions] == [0, 1, 0, 0, 0, 0]
    assert [refusal.line for refusal in answer.refusals] == [3, 4, 5, 6]
    assert "and the model has only 24 positions" in answer.refusals[0].sentence
    with pytest.raises(UserError, match="a tagger has one output per line"):
        task.predict(
            model,
            Request(["Ann"], task.config.decode.model_copy(update={"n_best": 2})),
            engine=Engine(),
        )


def test_a_sentence_that_is_too_long_is_named_by_its_first_line(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path, CONLL.format("I-PER", "I-PER", "I-LOC") + "\n" + "Ann . O\n" * 40
    )
    with pytest.raises(UserError, match=r"train.txt:15: the words have 40 tokens where data.max"):
        train(settings(folder), tmp_path / "run")


@pytest.mark.parametrize("model", BODIES, ids=["lstm", "bert"])
def test_special_ids_may_stand_anywhere(tmp_path: Path, model: list[str]) -> None:
    more = [*model, "tokenizer.kind=words", "model.dropout=0"]
    plain = Tag.learn(settings(folder_with(tmp_path), *more))
    other = Tag(plain.config, turned(plain.tokenizer), plain.labels)
    models = [task.build_model().eval() for task in (plain, other)]
    with_turned_vocabulary(*models, len(plain.tokenizer))
    losses, tags = [], []
    for task, one in zip((plain, other), models, strict=True):
        total = Sums()
        for batch in task.batches().epoch(0):
            total = total + task.loss(one, batch, {})
        losses.append(total.mean_loss)
        request = Request(["Ann met Paris .", "Lee"], task.config.decode)
        answer = task.predict(one, request, engine=Engine())
        tags.append([prediction.tags for prediction in answer.predictions])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert tags[0] == tags[1]


@pytest.mark.parametrize("model", BODIES, ids=["lstm", "bert"])
def test_a_batch_of_sentences_is_tagged_as_one_by_one_and_by_many_threads(
    tmp_path: Path, model: list[str]
) -> None:
    task = Tag.learn(settings(folder_with(tmp_path), *model, "model.crf=true"))
    one = task.build_model().eval()
    lines = [" ".join(["Ann", "met", "Lee"] * n) for n in range(1, 4)]

    def tags(lines: list[str]) -> list[list[str]]:
        answer = task.predict(one, Request(lines, task.config.decode), engine=Engine())
        return [prediction.tags for prediction in answer.predictions]

    together = tags(lines)
    assert [tags([line])[0] for line in lines] == together
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tags, [lines] * 6)) == [together] * 6


def test_a_run_stopped_in_the_middle_resumes_to_the_same_bits(tmp_path: Path) -> None:
    few = ["train.steps=8", "train.eval_every=4", "train.save_every=4", "train.keep=3"]
    made = settings(folder_with(tmp_path), *few, "model.crf=true")
    train(made, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped" / "checkpoints" / "step-8")
    train(made, tmp_path / "stopped", resume=True)
    for file in ("model.safetensors", "checkpoints/step-8/optimizer.safetensors"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "run" / file).read_bytes()
