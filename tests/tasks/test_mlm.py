"""mlm: from documents to masked words and pairs, and back to words with probabilities."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import config, load
from regard.config import Config
from regard.data.masking import NO_TARGET
from regard.runs.directory import read_metrics
from regard.runs.run import Run
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.ranks import World
from regard.tasks import MaskedLanguageModelling
from regard.training.gradients import make_gradients
from tests.command import refused

YAML = """
task: mlm
data: {train: text.txt, valid: text.txt, test: text.txt, documents: titles, max_length: 24}
tokenizer: {kind: wordpiece, vocab_size: 90}
model: {kind: bert, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, dropout: 0.1}
train: {steps: 8, batch_size: 8, lr: 0.01, warmup: 0, schedule: constant, eval_every: 4,
  save_every: 4}
"""
ANIMALS = ("dog", "cat", "hen", "cow", "fox", "owl")
TEXT = "".join(
    f" = The {animal} = \n \n The {animal} runs . The {animal} eats , and sleeps .\n"
    f" A {animal} is old . \n \n = = Young = = \n A young {animal} plays . It is small .\n"
    for animal in ANIMALS
)


def quiet(sentence: str) -> None: ...


def configured(folder: Path, *settings: str) -> Config:
    return config.load(str(folder / "mlm.yaml"), [f"data.directory={folder}", *settings])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mlm")
    (path / "mlm.yaml").write_text(YAML)
    (path / "text.txt").write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    made, _ = train(configured(folder), folder / "run", say=quiet)
    return made


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ("nsp", {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"}),
        ("sop", {"mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy"}),
        ("none", {"mlm_loss", "mlm_accuracy"}),
    ],
)
def test_each_kind_of_pairs_has_its_losses_and_accuracies(folder, tmp_path, pairs, names) -> None:
    settings = configured(folder, f"data.sentence_pairs={pairs}", "train.steps=4")
    made, _ = train(settings, tmp_path / "run", say=quiet)
    metrics = made.evaluate("test")["metrics"]
    assert metrics.keys() == {"loss", "unigram_loss", "gap_closed"} | names
    losses = [
        value
        for name, value in metrics.items()
        if name.endswith("m_loss") or name in ("nsp_loss", "sop_loss")
    ]
    assert metrics["loss"] == pytest.approx(sum(losses) - metrics["unigram_loss"])
    (line,) = read_metrics(made.path)
    assert line["train"].keys() == {"loss"} | names
    assert (made.model.sentence_pair is None) == (pairs == "none")


def test_the_unigram_loss_is_that_of_the_frequencies_and_the_gap_what_is_left(run: Run) -> None:
    metrics = run.evaluate("valid")["metrics"]
    ids = np.concatenate(
        run.task.text("valid").examples.rows(np.arange(len(run.task.text("valid").examples)))[0]
    )
    special, losses = run.tokenizer.special.all, []
    kept = [token for token in ids.tolist() if token not in special]
    for batch in run.task._to_evaluate("valid"):
        for token in batch.targets[batch.targets != NO_TARGET].tolist():
            losses.append(-math.log(kept.count(token) / len(kept)))
    assert metrics["unigram_loss"] == pytest.approx(sum(losses) / len(losses))
    assert metrics["gap_closed"] == pytest.approx(1 - metrics["mlm_loss"] / metrics["unigram_loss"])


def test_an_evaluation_masks_the_same_words_every_time(run: Run, folder: Path) -> None:
    assert run.evaluate("valid")["metrics"] == run.evaluate("valid")["metrics"]
    other = MaskedLanguageModelling(configured(folder, "seed=7"), run.tokenizer)
    for one, two in zip(run.task._to_evaluate("valid"), other._to_evaluate("valid"), strict=True):
        assert torch.equal(one.source, two.source)


def test_a_small_model_learns_words_and_pairs(folder: Path, tmp_path: Path) -> None:
    longer = ["train.steps=150", "train.eval_every=150", "train.save_every=150", "model.dropout=0"]
    wide = ["model.d_model=32", "train.batch_size=12", "train.optimizer=muon"]
    made, _ = train(configured(folder, *longer, *wide), tmp_path / "run", say=quiet)
    metrics = made.evaluate("valid")["metrics"]
    assert metrics["gap_closed"] > 0.5
    assert metrics["mlm_accuracy"] > 0.5


def test_a_run_that_is_resumed_ends_in_the_same_bits(run: Run, folder, tmp_path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    shutil.rmtree(copy / "checkpoints" / "step-8")
    train(configured(folder), copy, resume=True, say=quiet)
    for name in ("model", "optimizer"):
        file = f"checkpoints/step-8/{name}.safetensors"
        assert (copy / file).read_bytes() == (run.path / file).read_bytes()


def test_shares_and_accumulated_batches_have_the_gradient_of_the_whole(folder: Path) -> None:
    task = MaskedLanguageModelling.learn(configured(folder, "model.dropout=0"))
    batch = next(task.batches().epoch(0))
    gradients = []
    for shares, parts in ((1, [slice(None)]), (2, [slice(None)]), (1, [slice(0, 3), slice(3, 8)])):
        model = task.build_model()
        maker = make_gradients(task.loss, engine=Engine(), shares=shares, world=World())
        batches = {str(number): batch.rows(part) for number, part in enumerate(parts)}
        with maker.ready():
            maker.add(model, batches, {}, step=1)
        gradients.append([weight.grad for weight in model.parameters()])
    for other in gradients[1:]:
        for one, same in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(one, same, atol=1e-6, rtol=1e-4)


def test_predictions_are_words_with_probabilities(run: Run) -> None:
    line = "The [MASK] runs .  A [MASK]!"
    (prediction,) = run.predictions([line], decoding={"n_best": 3})
    assert [len(words) for words in prediction.masks] == [3, 3]
    for words in prediction.masks:
        values = [word.probability for word in words]
        assert values == sorted(values, reverse=True)
        assert not any(word.word in ("", "[MASK]", "<unk>", "</s>") for word in words)
    first, second = (words[0].word for words in prediction.masks)
    assert prediction.best == f"The {first} runs .  A {second}!"
    assert prediction.text.count("\t") == 2
    assert prediction.as_json().keys() == {"input", "outputs", "masks"}
    json.dumps(prediction.as_json())
    (alone,) = load(run.path).predictions(
        [line], decoding={"n_best": len(run.task.tokenizer.plain_ids)}
    )
    assert sum(word.probability for word in alone.masks[0]) == pytest.approx(1, abs=1e-5)


def test_many_lines_are_answered_as_each_alone(run: Run) -> None:
    lines = [f"The [MASK] {' '.join(['runs'] * count)}" for count in (9, 1, 5, 0)]
    together = run.predictions(lines)
    for line, prediction in zip(lines, together, strict=True):
        (alone,) = run.predictions([line])
        assert alone.best == prediction.best
        assert alone.masks[0][0].probability == pytest.approx(
            prediction.masks[0][0].probability, abs=1e-5
        )


def test_a_subword_is_joined_to_its_word() -> None:
    from regard.tasks.masked_words import filled

    assert filled("He walk [MASK] home", ["##ed"]) == "He walked home"
    assert filled("[MASK], he", ["No"]) == "No, he"


def test_the_trace_and_the_example_show_a_mask(run: Run) -> None:
    example = run.task.example(lambda text: True)
    assert example is not None
    assert "[MASK]" in example
    trace = run.trace(example)
    assert trace.tokens["source"][0] == "<s>"
    assert "[MASK]" in trace.tokens["source"]
    assert "body.encoder.layers.0.self_attention" in trace.attention()


def test_a_body_that_was_pretrained_begins_another_run(run: Run, folder, tmp_path) -> None:
    said: list[str] = []
    settings = configured(folder, "data.sentence_pairs=none", "train.steps=4")
    made, _ = train(settings, tmp_path / "run", init=f"{run.path}:body", say=said.append)
    assert made.tokenizer.hash == run.tokenizer.hash
    assert any("Taken from" in sentence for sentence in said)


def refused_to_train(call, folder: Path, *settings: str) -> str:
    words = [word for setting in settings for word in ("-s", setting)]
    result = call("train", folder / "mlm.yaml", "--data", folder, "--out", "run", *words)
    assert result.code == 2, result.err
    return result.err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["data.mask_rate=0"], "data.mask_rate=0"),
        (["data.mask_rate=1"], "data.mask_rate=1"),
        (["data.mask_rate=half"], "data.mask_rate"),
        (["data.sentence_pairs=both"], "is not one of nsp, sop, none"),
        (["data.documents=files"], "all of the text is one document (data.documents=files)"),
        (["data.train=one.txt"], "the text is too short for pairs: none of its 1 documents has"),
        (["data.train=empty.txt"], "contains no text"),
        (["data.max_length=4"], "data.max_length=4 leaves no room"),
        (["model.max_positions=10"], "max_positions=10"),
        (["model.kind=lstm"], "model.kind=lstm is not available for task=mlm"),
        (["train.metric=sop_accuracy"], "train.metric=sop_accuracy is not measured here"),
        (["data.document_mask=true"], "would do nothing"),
        (["decode.beam=3"], "would do nothing"),
    ],
)
def test_what_cannot_be_trained_is_refused(call, folder: Path, settings, words: str) -> None:
    (folder / "one.txt").write_text("hello\n")
    (folder / "empty.txt").write_text("\n\n")
    assert words in refused_to_train(call, folder, *settings)


def test_keys_of_mlm_are_refused_elsewhere(call) -> None:
    for key in ("data.mask_rate=0.3", "data.whole_words=true", "data.sentence_pairs=sop"):
        refused(
            call("train", "sort", "--out", "x", "-s", key), "would do nothing: it is for task=mlm"
        )


def test_lines_that_cannot_be_read_are_refused(call, run: Run, folder: Path) -> None:
    refused(
        call("predict", run.path, stdin="The [MASK] runs\nThe dog runs\n"),
        "standard input:2: there is no [MASK] in the line",
    )
    refused(
        call("predict", run.path, stdin="[MASK] dog" + " cat" * 30),
        "the text has 32 tokens, and this model reads at most 22",
    )
    refused(call("predict", run.path, "--beam", 3, stdin="[MASK]\n"), "beam is for runs that")
    refused(call("predict", run.path, "--n-best", 500, stdin="[MASK]\n"), "n_best=500 is more than")
    refused(call("generate", run.path, "--prompt", "x"), "mlm")
    refused(call("data", "check", folder / "mlm.yaml", "--data", folder), "reads running text")
    result = call("predict", run.path, "--json", stdin="The [MASK] runs\n")
    assert len(result.json["predictions"][0]["masks"]) == 1
    skipped = call("predict", run.path, "--on-bad-line", "skip", stdin="x\n[MASK]\n")
    assert skipped.code == 0
    assert "1 of these because they cannot be read" in skipped.err


def test_other_mask_rates_may_be_evaluated_but_not_other_pairs(call, run: Run) -> None:
    folder = run.path.parent
    more = call("evaluate", run.path, "--data", folder, "-s", "data.mask_rate=0.5", "--json").json
    less = call("evaluate", run.path, "--data", folder, "--json").json
    assert more["examples"] > 2 * less["examples"]
    refused(
        call("evaluate", run.path, "-s", "data.sentence_pairs=none"), "only the keys that say where"
    )


def test_jsonl_rows_are_documents(folder: Path, tmp_path: Path) -> None:
    rows = [
        json.dumps({"text": f"The {animal} runs. It is old.\nA {animal} eats."})
        for animal in ANIMALS
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    names = [f"data.{split}=rows.jsonl" for split in ("train", "valid", "test")]
    task = MaskedLanguageModelling.learn(
        config.load(
            str(folder / "mlm.yaml"), [f"data.directory={tmp_path}", "data.text=text", *names]
        )
    )
    task.check_data()
    assert len(task.text("train").examples) == len(ANIMALS)
