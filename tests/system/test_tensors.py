"""Tensors on disk: what their hash covers, and which files are refused."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from regard.system import tensors as module
from regard.system.errors import UserError
from regard.system.tensors import read_tensors, read_weights, weights, write_tensors
from tests.permissions import shared_folder, without_privileges

OLD = Path(__file__).parents[1] / "runs/old/lm-rnn/model.safetensors"


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["regard"])


def in_header(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"F32"', b'"I32"'),
        (b"[2,3]", b"[3,2]"),
        (b"abc", b"abd"),
        (b'\\"hash\\"', b'\\"hasi\\"'),
        (b'\\"schema\\": 2', b'\\"schema\\": 1'),
    ],
)
def test_the_hash_covers_type_shape_and_metadata(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.ones(2, 3)}, metadata={"tokenizer": "abc"})
    assert read_tensors(path)[1]["tokenizer"] == "abc"
    in_header(path, old, new)
    with pytest.raises(UserError, match="its hash differs"):
        read_tensors(path)


def test_a_file_of_the_first_version_is_read_and_its_types_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(OLD, path)
    values, metadata = read_tensors(path)
    assert "hash" not in metadata
    model = torch.nn.Module()
    for name, value in values.items():
        part = model
        *parents, last = name.split(".")
        for parent in parents:
            if not hasattr(part, parent):
                part.add_module(parent, torch.nn.Module())
            part = getattr(part, parent)
        part.register_parameter(last, torch.nn.Parameter(torch.zeros_like(value)))
    read_weights(path, model, metadata={"data.max_length": "20"})
    assert weights(model)["embedding.weight"].equal(values["embedding.weight"])
    in_header(path, b'"F32"', b'"I32"')
    with pytest.raises(UserError, match=r"has numbers of torch.int32, not of torch.float32"):
        read_weights(path, model, metadata={})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    path = tmp_path / "x.safetensors"
    values = {"a": torch.ones(2), "layers.0.bias": torch.tensor([0.0, number])}
    with pytest.raises(UserError, match=r"weight layers.0.bias is not finite: training has div"):
        write_tensors(path, values)
    assert not path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(module, "_first_not_finite", lambda tensors: None)
        write_tensors(path, values)
    with pytest.raises(UserError, match=r"x.safetensors: layers.0.bias has numbers that are not f"):
        read_tensors(path)


def test_a_key_that_predictions_depend_on_is_named(tmp_path: Path) -> None:
    path, model = tmp_path / "x.safetensors", torch.nn.Linear(1, 1)
    write_tensors(path, weights(model), metadata={"data.max_length": "20", "tokenizer": "a" * 64})
    read_weights(path, model, metadata={"data.max_length": "20", "tokenizer": "a" * 64})
    with pytest.raises(UserError, match=r"trained with data.max_length=20 where config.yaml has 9"):
        read_weights(path, model, metadata={"data.max_length": "9"})
    with pytest.raises(UserError, match=r"another tokenizer than the one in its directory"):
        read_weights(path, model, metadata={"tokenizer": "b" * 64})


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_weights_are_readable_by_whom_the_umask_says(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_tensors(tmp_path / "x.safetensors", {"a": torch.ones(1)})
    finally:
        os.umask(before)
    assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_weights_that_may_not_be_read_are_not_called_damaged() -> None:
    with shared_folder() as folder:
        path = folder / "x.safetensors"
        write_tensors(path, {"a": torch.ones(1)})
        path.chmod(0)
        with without_privileges(), pytest.raises(UserError, match="cannot be read: Permission den"):
            read_tensors(path)


@pytest.mark.parametrize(
    "metadata", ["[]", "3", "{", "[" * 1000, '{"schema": []}', '{"schema": "2"}', '{"schema": 99}']
)
def test_other_metadata_is_one_sentence(tmp_path: Path, metadata: str) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors", {"regard": metadata})
    with pytest.raises(UserError, match=r"x.safetensors (is damaged|was made by another Regard)"):
        read_tensors(tmp_path / "x.safetensors")


def test_what_is_read_is_aligned_as_what_is_computed(tmp_path: Path) -> None:
    """Products are rounded by their alignment too, and a resumed run has the same bits."""
    tensors = {name: torch.randn(3, 5) for name in "abcde"}
    write_tensors(tmp_path / "t.safetensors", tensors)
    read, _ = read_tensors(tmp_path / "t.safetensors")
    assert {part.data_ptr() % 64 for part in read.values()} == {0}
