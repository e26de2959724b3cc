"""BLEU as papers on Multi30k report it: on lowercased, tokenised text.

python -m benchmarks.published_bleu RUN --data DIR

Outputs and references go through the Moses scripts that the corpus was prepared with (punctuation
normalised, lowercased, tokenised; here by sacremoses), and words are what is between spaces,
as in multi-bleu. The table also shows sacreBLEU's value for the same outputs, on plain text.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]

import regard
from benchmarks.interleave import print_table


def prepared(texts: Sequence[str], language: str) -> list[str]:
    """The texts after the Moses scripts."""
    normal, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [tokenizer.tokenize(normal.normalize(text.lower()), return_str=True) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", choices=["valid", "test"], default="test")
    options = parser.parse_args()
    run = regard.load(options.run, data=options.data)
    evaluation = run.evaluation(options.split)
    scores = evaluation.metrics | evaluation.signatures
    language = run.config.data.languages[1]
    outputs, references = (
        prepared([getattr(one, side) for one in evaluation.outputs], language)
        for side in ("output", "target")
    )
    # force: they are tokenised, and meant to be.
    moses = BLEU(tokenize="none", smooth_method="none", force=True)
    bleu_by_text = {
        "lowercased, Moses' tokenizer": moses.corpus_score(outputs, [references]).score,
        "sacreBLEU, lowercased": scores["bleu_lc"],
        "sacreBLEU": scores["bleu"],
    }
    print_table(["text", "BLEU"], [[name, f"{score:.2f}"] for name, score in bleu_by_text.items()])


if __name__ == "__main__":
    main()
