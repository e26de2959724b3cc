"""Translating a test set: Regard against Hugging Face's `generate` and against CTranslate2.

    python -m benchmarks.translation_speed RUN --data DIR          (about ten minutes)

RUN is a trained run of the recipe multi30k, DIR has its files. All engines have the run's weights
and its tokenizer, go from text to text, and keep no more than two threads. Hugging Face's model is
Pegasus, which is Marian's with each norm before its part and not after, as this recipe has it.
Every engine but ours tries several sizes of batches, CTranslate2 also one translator or two, and
keeps its fastest. Without a length penalty (the default here) all three mean the same by beam
search: outputs are compared. A ratio is the median of those of the rounds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns
from regard.data.batches import source_batch
from regard.data.tokenizer import END, NEVER_WRITTEN, PADDING, START
from regard.metrics.translation import translation_scores
from regard.models import Transformer
from regard.nn import DecoderLayer, EncoderLayer, MultiHeadAttention, sinusoids
from regard.run import Run, load
from regard.training.engine import keep_freed_memory

LONGEST, THREADS = 100, 2
Engine = Callable[[list[str]], list[str]]


def regard(run: Run, beam: int, penalty: float) -> Engine:
    keep_freed_memory()  # as the command does
    decoding = {"beam": beam, "length_penalty": penalty, "max_new_tokens": LONGEST}
    return lambda lines: run.predict(lines, **decoding)


def hugging_face(run: Run, beam: int, penalty: float) -> Engine:
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    ours = run.model
    assert isinstance(ours, Transformer)
    layer = ours.encoder.layers[0]
    assert isinstance(layer, EncoderLayer)
    theirs: Any = PegasusForConditionalGeneration(
        PegasusConfig(  # type: ignore[call-arg]
            vocab_size=len(run.tokenizer),
            d_model=ours.d_model,
            encoder_layers=len(ours.encoder.layers),
            decoder_layers=len(ours.decoder.layers),
            encoder_attention_heads=layer.self_attention.n_heads,
            decoder_attention_heads=layer.self_attention.n_heads,
            encoder_ffn_dim=layer.feed_forward.inner.out_features,
            decoder_ffn_dim=layer.feed_forward.inner.out_features,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=256,
            pad_token_id=PADDING,
            bos_token_id=START,
            eos_token_id=END,
            forced_eos_token_id=None,
            decoder_start_token_id=START,
        )
    )
    theirs.eval()
    with torch.no_grad():
        _copy(ours, theirs)
    theirs.generation_config.update(
        num_beams=beam, length_penalty=penalty, max_new_tokens=LONGEST, max_length=None
    )

    def translate(lines: list[str], size: int) -> list[str]:
        ids = run.tokenizer.encode(lines)
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        found = [""] * len(ids)
        for begin in range(0, len(order), size):
            rows = order[begin : begin + size]
            source = source_batch([ids[row] for row in rows])
            with torch.inference_mode():
                written = theirs.generate(source, attention_mask=(source != PADDING).long())
            for row, tokens in zip(rows, written.tolist(), strict=True):
                kept = [token for token in tokens if token not in (PADDING, START, END)]
                found[row] = run.tokenizer.decode(kept)
        return found

    return _fastest([partial(translate, size=size) for size in (32, 64, 128)])


def _copy(ours: Transformer, theirs: Any) -> None:
    """Our weights into their model."""

    def affine(part: Any, other: Any) -> None:
        other.weight.copy_(part.weight)
        other.bias.copy_(part.bias)

    def attention(part: MultiHeadAttention, other: Any) -> None:
        blocks = zip(part.projection.weight.chunk(3), part.projection.bias.chunk(3), strict=True)
        for name, (weight, bias) in zip("qkv", blocks, strict=True):
            getattr(other, f"{name}_proj").weight.copy_(weight)
            getattr(other, f"{name}_proj").bias.copy_(bias)
        affine(part.output, other.out_proj)

    theirs.model.shared.weight.copy_(ours.source_embedding.tokens.weight)
    theirs.final_logits_bias.zero_()
    theirs.final_logits_bias[:, list(NEVER_WRITTEN)] = -torch.inf
    for stack, other in (
        (ours.encoder, theirs.model.encoder),
        (ours.decoder, theirs.model.decoder),
    ):
        other.embed_positions.weight.copy_(sinusoids(256, ours.d_model))
        assert stack.final_norm is not None
        affine(stack.final_norm, other.layer_norm)
        for part, layer in zip(stack.layers, other.layers, strict=True):
            assert isinstance(part, EncoderLayer | DecoderLayer)
            attention(part.self_attention, layer.self_attn)
            if isinstance(part, DecoderLayer):
                attention(part.cross_attention, layer.encoder_attn)
                affine(part.self_residual.norm, layer.self_attn_layer_norm)
                affine(part.cross_residual.norm, layer.encoder_attn_layer_norm)
            else:
                affine(part.attention_residual.norm, layer.self_attn_layer_norm)
            affine(part.feed_forward.inner, layer.fc1)
            affine(part.feed_forward.outer, layer.fc2)
            affine(part.feed_forward_residual.norm, layer.final_layer_norm)


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
        found = translator.translate_batch(
            texts,
            beam_size=beam,
            length_penalty=penalty,
            max_decoding_length=LONGEST - 1,
            min_decoding_length=0,
            max_batch_size=size,
            disable_unk=True,
            suppress_sequences=never,
        )
        return [tokenizer.decode([ids[token] for token in one.hypotheses[0]]) for one in found]

    return _fastest(
        [
            partial(translate, translator=translator, size=size)
            for translator in translators
            for size in (32, 64, 128)
        ]
    )


def _fastest(engines: list[Engine]) -> Engine:
    """The one that is fastest on the lines that it is first given; the others are forgotten."""

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
    scores = translation_scores(
        outputs, targets, language=run.config.data.languages[1], names=["bleu", "bleu_lc"]
    )

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
    found = {}
    for name in ENGINES:
        found[name] = Contestant(__file__, name, *shared)
        print(f"{name} is ready", flush=True)
    take_turns(list(found.values()), rounds=options.rounds, warm_up=0)
    ours = found["Regard"]
    rows = []
    for name, one in found.items():
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
