"""BLEU, chrF and TER of translations, computed by sacrebleu on detokenised text."""

from collections.abc import Callable, Collection, Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.system.errors import UserError

TOKENIZERS = (
    dict.fromkeys(("zh", "zho", "chi", "cmn"), "zh")
    | dict.fromkeys(("ja", "jpn"), "ja-mecab")
    | dict.fromkeys(("ko", "kor"), "ko-mecab")
)
"""sacrebleu's tokenizers of languages that have no spaces between words; 13a otherwise."""

MAKERS: dict[str, Callable[[str], BLEU | CHRF | TER]] = {
    "bleu": lambda language: BLEU(tokenize=tokenizer_of(language), trg_lang=language),
    "bleu_lc": lambda language: BLEU(
        tokenize=tokenizer_of(language), trg_lang=language, lowercase=True
    ),
    "chrf": lambda language: CHRF(),
    "ter": lambda language: TER(
        normalized=tokenizer_of(language) != "13a", asian_support=tokenizer_of(language) != "13a"
    ),
}
"""The metrics by their names here; bleu_lc ignores case."""


def tokenizer_of(language: str) -> str:
    """The name of sacrebleu's tokenizer for this language."""
    return TOKENIZERS.get(language.lower().replace("_", "-").split("-")[0], "13a")


def words_of(language: str) -> Callable[[str], list[str]]:
    """The function that splits a text of this language into words, as BLEU does."""
    metric = _metric("bleu", language)
    assert isinstance(metric, BLEU)
    return lambda text: metric.tokenizer(text).split()


def translation_metrics(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    names: Collection[str] = tuple(MAKERS),
) -> dict[str, float]:
    """The metrics of a corpus, from 0 to 100; for TER lower is better."""
    return {
        name: _metric(name, language).corpus_score(list(hypotheses), [list(references)]).score
        for name in names
    }


def signatures(language: str) -> dict[str, str]:
    """sacrebleu's signature of each metric, without which values cannot be compared."""
    by_name = {}
    for name in MAKERS:
        metric = _metric(name, language)
        metric.corpus_score(["a"], [["a"]])  # a signature includes the number of references
        by_name[f"{name}_signature"] = str(metric.get_signature())
    return by_name


def _metric(name: str, language: str) -> BLEU | CHRF | TER:
    """A metric of sacrebleu; refused if the tokenizer of the language is not installed."""
    try:
        return MAKERS[name](language)
    except (ImportError, RuntimeError):
        raise UserError(
            f"BLEU of {language} needs a package that splits it into words. Install it with: "
            f"pip install 'sacrebleu[{tokenizer_of(language)[:2]}]'"
        ) from None
