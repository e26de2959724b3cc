"""span: questions on texts in, parts of these texts out."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regard import config
from regard.config import Config
from regard.data.row_source import RowSource
from regard.runs import run
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks import Request, Span
from regard.tasks.answering import Question
from regard.training.loss import Sums
from tests.tasks.test_special_ids import turned, with_turned_vocabulary

YAML = """
task: span
data: {train: qa.json, valid: qa.json, test: qa.json, max_length: 24, stride: 4}
tokenizer: {kind: words}
model: {kind: bert, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 16, dropout: 0}
train: {steps: 80, eval_every: 40, batch_size: 4, lr: 0.02, warmup: 0, metric: em}
"""
CONTEXTS = ["Ann lives in Rome .", "in Paris lives Bob .", "Lee now lives in Bonn ."]
WHO = ["Ann", "Bob", "Lee"]
WHERE = ["Rome", "Paris", "Bonn"]


def question(number: int, asked: str, context: str, *answers: str) -> dict:
    spans = [{"text": text, "answer_start": context.index(text)} for text in answers]
    return {"id": f"q{number}", "question": asked, "answers": spans}


def squad_file(folder: Path, *more: dict) -> Path:
    """A file of six questions, and more on the first context."""
    paragraphs = []
    for number, context in enumerate(CONTEXTS):
        qas = [
            question(2 * number, "who lives there ?", context, WHO[number]),
            question(2 * number + 1, "where ?", context, WHERE[number], WHERE[number]),
        ]
        paragraphs.append({"context": context, "qas": qas})
    paragraphs[0]["qas"] += more
    (folder / "qa.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    (folder / "span.yaml").write_text(YAML)
    return folder


def settings(folder: Path, *more: str) -> Config:
    return config.load(str(folder / "span.yaml"), [f"data.directory={folder}", *more])


def test_it_learns_which_part_of_a_text_answers_a_question(tmp_path: Path) -> None:
    train(settings(squad_file(tmp_path)), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    lines = [
        "where ?\tAnn lives in Rome .",
        json.dumps({"question": "who lives there ?", "context": CONTEXTS[1]}),
    ]
    first, second = opened.predictions(lines, decoding={"n_best": 2})
    assert (first.best, second.best) == ("Rome", "Bob")
    (answer, other) = first.as_json()["answers"]
    assert {**answer, "probability": 0} == {
        "text": "Rome",
        "start": 13,
        "end": 17,
        "probability": 0,
    }
    assert 1 > answer["probability"] > other["probability"] > 0
    report = opened.evaluate("test")
    assert (report["examples"], report["metrics"]["em"], report["metrics"]["f1"]) == (6, 1.0, 1.0)
    outputs = opened.evaluation("test").outputs
    assert (outputs[1].source, outputs[1].target, outputs[1].output) == ("where ?", "Rome", "Rome")
    assert opened.trace("where ?\tAnn lives in Rome .").attention()


def test_a_question_without_an_answer_is_learned_where_that_is_allowed(tmp_path: Path) -> None:
    impossible = {"id": "x", "question": "why ?", "answers": [], "is_impossible": True}
    folder = squad_file(tmp_path, impossible)
    with pytest.raises(UserError, match=r"qa.json, question 'x': the question has no answer; data"):
        train(settings(folder), tmp_path / "run")
    made, _ = train(settings(folder, "data.no_answer=true"), tmp_path / "run")
    (none,) = made.predictions([f"why ?\t{CONTEXTS[0]}"])
    assert (none.outputs, none.answers[0].start, none.answers[0].end) == ([""], 0, 0)
    assert made.evaluate("test")["metrics"]["em"] == 1.0
    made.config.data.null_threshold = 1e6
    assert made.predict([f"why ?\t{CONTEXTS[0]}"]) != [""]


def test_an_answer_that_is_not_at_its_place_is_named_or_counted(tmp_path: Path) -> None:
    wrong = question(7, "where ?", CONTEXTS[0], "Rome")
    wrong["answers"][0]["answer_start"] = 3
    folder = squad_file(tmp_path, wrong)
    with pytest.raises(
        UserError,
        match=r"qa.json, question 'q7': the answer 'Rome' is not in its context at answer_start=3",
    ):
        train(settings(folder), tmp_path / "run")
    task = Span.learn(settings(folder, "data.on_bad_line=skip"))
    task.check_data()
    (sentence, *_) = task.warnings(["train"])
    assert "1 line was left out: 1 where one of the answers is not in its context" in sentence
    assert "qa.json, question 'q7'" in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"qa.json:1: this is not JSON"),
        ("[]", "there is no list 'data' where SQuAD's files have one"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "there is no list 'qas'"),
        ('{"data": []}', "there is no usable line"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [3]}]}]}', "is no object with keys"),
        ('{"data": [{"paragraphs": [{"qas": [{"question": "a"}]}]}]}', "no text under 'context'"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (squad_file(tmp_path) / "qa.json").write_text(text)
    with pytest.raises(UserError, match=words):
        train(settings(tmp_path), tmp_path / "run")


def test_long_contexts_are_read_in_windows_and_answered_by_the_best(tmp_path: Path) -> None:
    made, _ = train(settings(squad_file(tmp_path)), tmp_path / "run")
    filler = ". " * 60
    context = filler + CONTEXTS[0] + " " + filler
    (prediction,) = made.predictions([f"where ?\t{context}"])
    assert len(made.task.windows([Question("where ?", context)])[0]) > 5
    answer = prediction.answers[0]
    assert context[answer.start : answer.end] == answer.text == prediction.best


def test_lines_that_hold_no_question_are_refused(tmp_path: Path) -> None:
    task = Span.learn(settings(squad_file(tmp_path)))
    model = task.build_model().eval()
    long = "in " * 20 + "\t" + "in " * 9
    lines = ["", "where ?", "where ?\t ", "a\tb\tc", "{", '{"question": "a"}', long]
    request = Request([*lines, "where ?\tin Rome"], task.config.decode, on_bad_line="skip")
    answer = task.predict(model, request, engine=Engine())
    assert [refusal.line for refusal in answer.refusals] == [1, 2, 3, 4, 5, 6, 7]
    assert "a question and its context are expected" in answer.refusals[1].sentence
    assert "the question leaves no room for its context: it has 20" in answer.refusals[6].sentence
    assert answer.predictions[7].outputs
    many = Request(["a\tb"], task.config.decode.model_copy(update={"n_best": 21}))
    with pytest.raises(UserError, match="n_best=21 is more than the 20 answers"):
        task.predict(model, many, engine=Engine())


def test_a_batch_of_questions_is_answered_as_one_by_one_and_by_many_threads(tmp_path) -> None:
    task = Span.learn(settings(squad_file(tmp_path)))
    model = task.build_model().eval()
    lines = [f"where ?\t{' '.join(CONTEXTS[:n] * n)}" for n in (1, 2, 3)]

    def answers(lines: list[str]) -> list:
        request = Request(lines, task.config.decode)
        return [p.answers for p in task.predict(model, request, engine=Engine()).predictions]

    together = answers(lines)
    for line, expected in zip(lines, together, strict=True):
        (alone,) = answers([line])
        assert [(a.start, a.end) for a in alone] == [(a.start, a.end) for a in expected]
        assert [a.probability for a in alone] == pytest.approx([a.probability for a in expected])
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(answers, [lines] * 6)) == [together] * 6


def test_special_ids_may_stand_anywhere(tmp_path: Path) -> None:
    plain = Span.learn(settings(squad_file(tmp_path)))
    other = Span(plain.config, turned(plain.tokenizer))
    models = [task.build_model().eval() for task in (plain, other)]
    with_turned_vocabulary(*models, len(plain.tokenizer))
    losses, outputs = [], []
    for task, model in zip((plain, other), models, strict=True):
        total = Sums()
        for batch in task.batches().epoch(0):
            total = total + task.loss(model, batch, {})
        losses.append(total.mean_loss)
        request = Request([f"where ?\t{context}" for context in CONTEXTS], task.config.decode)
        answer = task.predict(model, request, engine=Engine())
        outputs.append([prediction.outputs for prediction in answer.predictions])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert outputs[0] == outputs[1]


def test_a_run_stopped_in_the_middle_resumes_to_the_same_bits(tmp_path: Path) -> None:
    few = ["train.steps=8", "train.eval_every=4", "train.save_every=4", "train.keep=3"]
    made = settings(squad_file(tmp_path), *few)
    train(made, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped" / "checkpoints" / "step-8")
    train(made, tmp_path / "stopped", resume=True)
    for file in ("model.safetensors", "checkpoints/step-8/optimizer.safetensors"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "run" / file).read_bytes()


def test_other_formats_hold_the_same_questions(tmp_path: Path) -> None:
    folder = squad_file(tmp_path)
    task = Span.learn(settings(folder))
    rows = list(task.sources["train"].rows())
    lines = [
        {
            "question": row["question"],
            "context": row["context"],
            "answers": {
                "text": [answer.text for answer in row["answers"]],
                "answer_start": [answer.start for answer in row["answers"]],
            },
        }
        for row in rows
    ]
    (folder / "qa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = settings(folder).data
    others = RowSource("qa.jsonl", "train", data, Span.FIELDS).rows()
    assert [row.values for row in others] == [row.values for row in rows]
    with pytest.raises(UserError, match=r"its own names, and data.question='asked' is another"):
        Span.learn(settings(folder, "data.question=asked"))
