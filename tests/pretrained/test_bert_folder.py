"""BERT folders become runs of the task of their head, and are written back equal."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import regard
from regard.data.batches import padded
from regard.data.frame import framed, framed_pair, segments_of
from regard.models import MaskedLogits
from regard.models.span_finder import SpanLogits
from regard.pretrained.bert import HEADS
from regard.runs.importing import import_run
from tests.command import refused
from tests.pretrained.foreign import write_bert

TEXTS = ["The cat sat on the mat.", "it", "Where is the red dog, running? 我爱你 zzz"]
PAIRS = [("a cat", "it runs"), ("dogs", "the reddish dog sat on a mat"), ("it", ".")]
OPTIONS: dict[str, dict[str, Any]] = {
    "BertForSequenceClassification": {"id2label": {0: "bad", 1: "good", 2: "so so"}},
    "BertForTokenClassification": {"id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}},
}
SCORE = "BertForSequenceClassification with one output"
KINDS = [*HEADS, SCORE]


@pytest.fixture(params=KINDS, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The name of an architecture, a folder with it, the run made of that, and their model."""
    name, folder = request.param, tmp_path_factory.mktemp("bert")
    kind = name.split()[0]
    options = {"num_labels": 1} if name == SCORE else OPTIONS.get(kind, {})
    _, theirs = write_bert(folder / "hf", kind, **options)
    import_run(str(folder / "hf"), folder / "run")
    return kind, folder / "hf", regard.load(folder / "run"), theirs


@torch.inference_mode()
def our_outputs(run: Any, rows: list[list[int]]) -> list[Tensor]:
    """What the model gives for each row, and for each real token, with segments."""
    special = run.tokenizer.special
    tokens, lengths = padded(rows, special)
    segments = padded([segments_of(row, special) for row in rows], special).tokens
    real = torch.arange(tokens.size(1)) < lengths[:, None]
    encoder = run.model.body if run.config.task == "embed" else run.model
    output = encoder(tokens, lengths, segments=segments)
    if isinstance(output, SpanLogits):
        return [output.start[real], output.end[real]]
    if isinstance(output, MaskedLogits):
        return [output.words[real], *([] if output.pair is None else [output.pair])]
    parts = output if isinstance(output, tuple) else (output,)
    return [part[real] if part.dim() == 3 else part for part in parts]


@torch.inference_mode()
def their_outputs(model: Any, batch: Any) -> list[Tensor]:
    real = batch["attention_mask"].bool()
    names = {"last_hidden_state", "pooler_output"}
    output = model(**batch)
    parts = [value for name, value in output.items() if name in names or "logits" in name]
    per_token = {"logits", "prediction_logits", "last_hidden_state", "start_logits", "end_logits"}
    names_of = [name for name in output if name in names or "logits" in name]
    return [
        part[real] if name in per_token and part.shape[:2] == real.shape else part
        for name, part in zip(names_of, parts, strict=True)
    ]


def assert_same_outputs(run: Any, model: Any, tokenizer: Any) -> None:
    """On ragged batches of one text and of two; the ids are theirs too."""
    special = run.tokenizer.special
    alone = [framed(ids, special) for ids in run.tokenizer.encode(TEXTS)]
    sides = [run.tokenizer.encode(list(side)) for side in zip(*PAIRS, strict=True)]
    together = [framed_pair(*ids, special) for ids in zip(*sides, strict=True)]
    firsts, seconds = zip(*PAIRS, strict=True)
    for rows, texts in ((alone, (TEXTS,)), (together, (list(firsts), list(seconds)))):
        batch = tokenizer(*texts, padding=True, return_tensors="pt")
        assert [row + [0] * (batch["input_ids"].size(1) - len(row)) for row in rows] == batch[
            "input_ids"
        ].tolist()
        ours, expected = our_outputs(run, rows), their_outputs(model, batch)
        assert len(ours) == len(expected)
        for mine, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=0)


def test_ids_and_outputs_are_those_of_transformers(pair: Any) -> None:
    kind, folder, run, theirs = pair
    is_score = theirs.config.num_labels == 1
    assert run.config.task == ("match" if is_score else HEADS[kind].task)
    assert_same_outputs(run, theirs, transformers.BertTokenizer.from_pretrained(folder))


def test_an_export_is_loaded_by_transformers_and_imported_again(pair: Any, tmp_path: Path) -> None:
    kind, folder, run, theirs = pair
    run.export("hf", tmp_path / "hf")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "hf"))
    assert all(value.equal(before[name]) for name, value in after.items())
    loaded = getattr(transformers, kind).from_pretrained(tmp_path / "hf").eval()
    for name, weight in theirs.state_dict().items():
        assert weight.equal(loaded.state_dict()[name]), name
    if kind in OPTIONS and run.config.task != "match":
        assert loaded.config.id2label == theirs.config.id2label
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert_same_outputs(run, loaded, tokenizer)
    import_run(str(tmp_path / "hf"), tmp_path / "again")
    again = regard.load(tmp_path / "again")
    assert again.config == run.config
    for name, weight in again.model.state_dict().items():
        assert weight.equal(run.model.state_dict()[name]), name


def test_a_run_of_it_predicts_and_is_verified(pair: Any, call) -> None:
    _, _, run, _ = pair
    lines = {"match": "the cat\tit runs\n", "mlm": "the cat [MASK] .\n"}
    line = lines.get(run.config.task, "the cat runs\n")
    if run.config.task == "span":
        line = json.dumps({"question": "where is it?", "context": "it is on the mat."}) + "\n"
    result = call("predict", run.path, stdin=line)
    assert result.code == 0, result.err
    assert result.out.strip()
    from regard.verify import run_checks

    for check in run_checks(run):
        assert check.difference() <= check.tolerance, check.name


def test_shards_and_the_names_of_old_files_are_read(tmp_path: Path) -> None:
    folder, theirs = write_bert(tmp_path / "hf", "BertModel", max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    import_run(str(folder), tmp_path / "run")
    sharded = regard.load(tmp_path / "run").model.state_dict()
    theirs.save_pretrained(tmp_path / "old")
    (tmp_path / "old" / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    file = tmp_path / "old" / "model.safetensors"
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in load_file(file).items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(48)[None]
    save_file(old, file, {"format": "pt"})
    import_run(str(tmp_path / "old"), tmp_path / "from-old")
    for name, weight in regard.load(tmp_path / "from-old").model.state_dict().items():
        assert weight.equal(sharded[name]), name


def test_an_encoder_without_a_pooler_is_one_without_a_pooler(tmp_path: Path) -> None:
    folder, _ = write_bert(tmp_path / "hf", "BertModel")
    file = folder / "model.safetensors"
    kept = {name: value for name, value in load_file(file).items() if "pooler" not in name}
    save_file(kept, file, {"format": "pt"})
    import_run(str(folder), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    assert not run.config.model.pooler
    assert run.model.body.pooler is None


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-PER", "I-PER", "B-LOC"], "iob2"),
        (["O", "I-PER", "B-PER", "I-LOC"], "none"),  # IOB1, where an entity may begin with I-
        (["NOUN", "VERB"], "none"),
        (["O", "B-X", "I-X", "E-X", "S-X"], "none"),
    ],
)
def test_the_scheme_of_tags_follows_from_their_names(call, tmp_path, labels, scheme) -> None:
    options = {"id2label": dict(enumerate(labels))}
    folder, theirs = write_bert(tmp_path / "hf", "BertForTokenClassification", **options)
    import_run(str(folder), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    assert run.config.data.scheme == scheme
    result = call("predict", "run", stdin="the cat runs\n")
    assert result.code == 0, result.err
    if scheme == "none":
        tokenizer = transformers.BertTokenizer.from_pretrained(folder)
        logits = theirs(**tokenizer("the cat sat", return_tensors="pt")).logits[0, 1:-1]
        best = [labels[number] for number in logits.argmax(dim=-1).tolist()]
        assert run.predict(["the cat sat"])[0].split() == best


def test_rows_without_a_token_are_left_out_and_counted(call, tmp_path: Path) -> None:
    folder, _ = write_bert(tmp_path / "hf", "BertModel", vocab_size=40)
    result = call("import", folder, "--out", "run")
    assert result.code == 0, result.err
    assert "14 of 40 rows of the embedding belong to no token" in result.err


POOLED = {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}


def with_modules(folder: Path, *kinds: str, **pooling: bool) -> Path:
    """The folder with the files of sentence-transformers."""
    modules = [
        {"idx": n, "path": f"{n}_{kind}", "type": f"x.{kind}"} for n, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    for number, kind in enumerate(kinds):
        (folder / f"{number}_{kind}").mkdir(exist_ok=True)
        (folder / f"{number}_{kind}" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_the_pooling_of_sentence_transformers_is_kept(call, tmp_path: Path) -> None:
    folder, _ = write_bert(tmp_path / "hf", "BertModel")
    import_run(str(folder), tmp_path / "plain")
    keys = regard.load(tmp_path / "plain").config.model
    assert (keys.pooling, keys.normalize) == ("mean", True)
    with_modules(folder, "Transformer", "Pooling", **POOLED)
    import_run(str(folder), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    assert (run.config.model.pooling, run.config.model.normalize) == ("max", False)
    run.export("hf", tmp_path / "back")
    import_run(str(tmp_path / "back"), tmp_path / "again")
    assert regard.load(tmp_path / "again").config == run.config
    both = POOLED | {"pooling_mode_cls_token": True}
    with_modules(folder, "Transformer", "Pooling", **both)
    refused(call("import", folder, "--out", "x"), "pooling by pooling_mode_max_tokens and")
    with_modules(folder, "Transformer", "Pooling", "Dense")
    refused(call("import", folder, "--out", "x"), "a module 'Dense' is not supported")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bert(tmp_path / "hf", "BertModel")[0]


def change(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"architectures": ["BertForMultipleChoice"]}, "the architecture 'BertForMultipleChoice'"),
        ({"model_type": "roberta"}, "a model of type 'roberta' cannot be imported; it may be"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type=relative_key is"),
        ({"is_decoder": True}, "is_decoder is not supported"),
        ({"hidden_act": "mish"}, "the activation 'mish' is not supported"),
        ({"num_attention_heads": 5}, "n_heads=5 does not divide d_model=24"),
        ({"vocab_size": 20}, "its tokenizer has 26 tokens, and its model only 20"),
        ({"vocab_size": 30}, "has 26 rows where its configuration asks for 30, one per token"),
        ({"num_hidden_layers": 3}, "lacks the weight bert.encoder.layer.2."),
        ({"num_hidden_layers": 1}, "which this model has no place for"),
        ({"max_position_embeddings": 50}, "position_embeddings.weight has shape (48, 24) where"),
        ({"type_vocab_size": "two"}, "type_vocab_size: input should be a valid integer"),
        ({"architectures": ["BertForSequenceClassification"]}, "lacks the weight classifier."),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(call, folder: Path, values, words) -> None:
    change(folder, **values)
    refused(call("import", folder, "--out", "new"), words)
    assert not Path("new").exists()


def test_a_folder_that_is_not_whole_is_refused(call, folder: Path, tmp_path: Path) -> None:
    (folder / "vocab.txt").rename(tmp_path / "vocab.txt")
    words = "has no tokenizer: tokenizer.json, or vocab.txt"
    refused(call("import", folder, "--out", "new"), words)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(call("import", folder, "--out", "new"), "pytorch_model.bin is a pickle")
    sharded, _ = write_bert(tmp_path / "sharded", "BertModel", max_shard_size="20KB")
    missing = sorted(sharded.glob("model-*.safetensors"))[1]
    missing.unlink()
    refused(call("import", sharded, "--out", "new"), f"the shard {missing.name} is missing")
