"""Is the condition met? Texts generated under each label, and what a classifier says of them.

    regard train reviews ; regard train reviews-conditional
    python -m benchmarks.conditions runs/reviews-conditional runs/reviews --samples 200

Per label: the share of samples that the classifier gives that label, beside its share of right
answers on the real texts of that label in its test split, which is the most that one can ask for.
"""

import argparse
from collections import defaultdict

from benchmarks.interleave import print_table
from regard.data.text_source import labelled
from regard.runs.run import Run, load


def generated(generator: Run, label: str, samples: int) -> list[str]:
    """Texts that begin after the label, without it."""
    prompt = labelled("", label).strip()
    answer = generator.predictions([prompt] * samples, decoding={"strategy": "sample", "seed": 1})
    return [prediction.best.removeprefix(prompt).strip() for prediction in answer]


def met(classifier: Run, texts: list[str], label: str) -> float:
    """The share of these texts, which are not empty, that the classifier gives this label."""
    texts = [text for text in texts if text]
    answer = classifier.answer(texts, on_bad_line="skip")
    words = [prediction.best for prediction in answer.predictions if prediction.outputs]
    return sum(word == label for word in words) / max(1, len(words))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("generator")
    parser.add_argument("classifier")
    parser.add_argument("--samples", type=int, default=200, help="texts per label")
    options = parser.parse_args()
    generator, classifier = load(options.generator), load(options.classifier)
    real: dict[str, list[str]] = defaultdict(list)
    for text, label in classifier.task.pairs("test"):
        real[label].append(text)
    rows = []
    for label in sorted(real):
        samples = generated(generator, label, options.samples)
        shares = [met(classifier, texts, label) for texts in (samples, real[label])]
        rows.append([label, *(f"{share:.2f}" for share in shares)])
    print_table(["condition", "met by generated texts", "met by real texts"], rows)


if __name__ == "__main__":
    main()
