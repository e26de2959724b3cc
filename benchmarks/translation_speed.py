"""Translating a test set: Regard against Hugging Face's `generate` and against CTranslate2.

    python -m benchmarks.translation_speed RUN --data DIR          (about ten minutes)

RUN is a trained run of the recipe multi30k, DIR has its files. All engines have the run's weights
and its tokenizer, go from text to text, and keep no more than two threads. Hugging Face's model is
Pegasus, which is Marian with pre-norm, as in this recipe.
Every engine but ours tries several sizes of batches, CTranslate2 also one translator or two, and
keeps its fastest. Without a length penalty (the default here) all three mean the same by beam
search: outputs are compared. A ratio is the median of those of the rounds.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.hugging_face import as_hugging_face
from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns
from regard.data.batches import source_batch
from regard.data.tokenizer import END, PADDING, START
from regard.metrics.bleu import bleu
from regard.metrics.translation import translation_metrics, words_of
from regard.models import Transformer
from regard.runs.run import Run, load
from regard.system.memory import keep_freed_memory

LONGEST, THREADS = 100, 2
Engine = Callable[[list[str]], list[str]]


def regard(run: Run, beam: int, penalty: float) -> Engine:
    keep_freed_memory()  # as the command does
    decoding = {"beam": beam, "length_penalty": penalty, "max_new_tokens": LONGEST}
    return lambda lines: run.predict(lines, **decoding)


def hugging_face(run: Run, beam: int, penalty: float) -> Engine:
    assert isinstance(run.model, Transformer)
    theirs = as_hugging_face(run.model, never=run.tokenizer.never_generated, longest=256)
    theirs.generation_config.update(
        num_beams=beam, length_penalty=penalty, max_new_tokens=LONGEST, max_length=None
    )

    def translate(lines: list[str], size: int) -> list[str]:
        ids = run.tokenizer.encode(lines)
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        outputs = [""] * len(ids)
        for begin in range(0, len(order), size):
            rows = order[begin : begin + size]
            source = source_batch([ids[row] for row in rows], run.tokenizer.special).tokens
            with torch.inference_mode():
                generated = theirs.generate(source, attention_mask=(source != PADDING).long())
            for row, tokens in zip(rows, generated.tolist(), strict=True):
                kept = [token for token in tokens if token not in (PADDING, START, END)]
                outputs[row] = run.tokenizer.decode(kept)
        return outputs

    return _fastest([partial(translate, size=size) for size in (32, 64, 128)])


def ctranslate2(run: Run, beam: int, penalty: float, *, kind: str) -> Engine:
    import ctranslate2 as engine  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as folder:
        run.export("ctranslate2", Path(folder) / "model")
        translators = [
            engine.Translator(
                str(Path(folder) / "model"),
                compute_type=kind,
                inter_threads=workers,
                intra_threads=THREADS // workers,
            )
            for workers in (1, THREADS)
        ]
    tokenizer = run.tokenizer
    ids = {token: number for number, token in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    never = [[token] for token in tokenizer.tokens([PADDING, START])]

    def translate(lines: list[str], translator: Any, size: int) -> list[str]:
        texts = [tokenizer.tokens(one) for one in tokenizer.encode(lines)]
        hypotheses = translator.translate_batch(
            texts,
            beam_size=beam,
            length_penalty=penalty,
            max_decoding_length=LONGEST - 1,
            min_decoding_length=0,
            max_batch_size=size,
            disable_unk=True,
            suppress_sequences=never,
        )
        return [tokenizer.decode([ids[token] for token in one.hypotheses[0]]) for one in hypotheses]

    return _fastest(
        [
            partial(translate, translator=translator, size=size)
            for translator in translators
            for size in (32, 64, 128)
        ]
    )


def _fastest(engines: list[Engine]) -> Engine:
    """The candidate that is fastest on its first lines; the others are discarded."""

    def translate(lines: list[str]) -> list[str]:
        if len(engines) > 1:
            seconds = []
            for engine in engines:
                began = time.perf_counter()
                engine(lines[:300])
                seconds.append(time.perf_counter() - began)
            engines[:] = [engines[seconds.index(min(seconds))]]
        return engines[0](lines)

    return translate


ENGINES: dict[str, Callable[..., Engine]] = {
    "Regard": regard,
    "Regard, int8": regard,
    "Hugging Face": hugging_face,
    "CTranslate2": lambda *a: ctranslate2(*a, kind="float32"),
    "CTranslate2, int8": lambda *a: ctranslate2(*a, kind="int8"),
}


def contestant(name: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(THREADS)
    run = load(options.run, data=options.data, quantize="int8" if name == "Regard, int8" else None)
    engine = ENGINES[name](run, options.beam, options.length_penalty)
    pairs = run.task.pairs("test")
    lines = [source for source, _ in pairs][: options.lines]
    outputs = engine(lines)
    targets = [target for _, target in pairs][: options.lines]
    language = run.config.data.languages[1]
    scores = translation_metrics(outputs, targets, language=language, names=["bleu", "bleu_lc"])
    cut = words_of(language)
    written_out = bleu([cut(one) for one in outputs], [cut(one) for one in targets]).score
    if not math.isclose(written_out, scores["bleu"]):
        raise SystemExit(f"BLEU by its formula is {written_out}, by sacrebleu {scores['bleu']}")

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        engine(lines)
        return time.perf_counter() - began, len(lines)

    serve(work, {"outputs": outputs, **scores})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--length-penalty", type=float, default=0.0)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant, options)
        return
    shared = [
        options.run.resolve(),
        "--data",
        options.data.resolve(),
        "--beam",
        options.beam,
        "--length-penalty",
        options.length_penalty,
        "--lines",
        options.lines,
    ]
    contestants = {}
    for name in ENGINES:
        contestants[name] = Contestant(__file__, name, *shared)
        print(f"{name} is ready", flush=True)
    take_turns(list(contestants.values()), rounds=options.rounds, warm_up=0)
    ours = contestants["Regard"]
    rows = []
    for name, one in contestants.items():
        outputs = zip(one.facts["outputs"], ours.facts["outputs"], strict=True)
        rows.append(
            [
                name,
                f"{one.speed:.0f}",
                f"**{ratio(ours, one):.2f}×**",
                f"{one.facts['bleu']:.1f}",
                f"{one.facts['bleu_lc']:.1f}",
                f"{sum(a == b for a, b in outputs)} of {len(ours.facts['outputs'])}",
                f"{one.peak:.0f}",
            ]
        )
    print_table(
        [
            "engine",
            "sentences/s",
            "Regard's speed beside it",
            "BLEU",
            "lowercased",
            "same as Regard's",
            "peak memory, MB",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
