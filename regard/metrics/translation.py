"""BLEU, chrF and TER of translations as they are read: detokenised text, by sacrebleu."""

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
"""How BLEU cuts a language into words, where spaces do not; by 13a otherwise."""

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
"""The scores, by the names that they have here; bleu_lc does not tell capitals apart."""


def tokenizer_of(language: str) -> str:
    """The name that sacrebleu has for the way to cut this language into words."""
    return TOKENIZERS.get(language.lower().replace("_", "-").split("-")[0], "13a")


def words_of(language: str) -> Callable[[str], list[str]]:
    """How a text of this language is cut into words when BLEU is counted."""
    metric = _made("bleu", language)
    assert isinstance(metric, BLEU)
    return lambda text: metric.tokenizer(text).split()


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    names: Collection[str] = tuple(MAKERS),
) -> dict[str, float]:
    """The scores of a corpus, 0 to 100; lower is better for TER alone."""
    return {
        name: _made(name, language).corpus_score(list(hypotheses), [list(references)]).score
        for name in names
    }


def signatures(language: str) -> dict[str, str]:
    """What to write beside a score so that another can be compared with it."""
    found = {}
    for name in MAKERS:
        metric = _made(name, language)
        metric.corpus_score(["a"], [["a"]])  # a signature says how many references there were
        found[f"{name}_signature"] = str(metric.get_signature())
    return found


def _made(name: str, language: str) -> BLEU | CHRF | TER:
    try:
        return MAKERS[name](language)
    except (ImportError, RuntimeError):
        raise UserError(
            f"BLEU of {language} needs a package that cuts it into words. Install it with: "
            f"pip install 'sacrebleu[{tokenizer_of(language)[:2]}]'"
        ) from None
