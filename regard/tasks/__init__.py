"""One file per task: it joins data, model, loss, metrics and predictions."""

from regard.tasks.answering import Answering
from regard.tasks.classify import Classification, Classify
from regard.tasks.embed import Embed, Embedding
from regard.tasks.evaluation import Evaluation
from regard.tasks.lm import Continuation, LanguageModelling
from regard.tasks.masked_words import FilledMasks
from regard.tasks.match import Match, MatchScore, Rating
from regard.tasks.mlm import MaskedLanguageModelling
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Counts, Refusal, Request
from regard.tasks.span import Span
from regard.tasks.tag import Tag
from regard.tasks.tagging import Tagging
from regard.tasks.task import Task
from regard.tasks.translate import Translate
from regard.tasks.translator import Translation

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "embed": Embed,
    "lm": LanguageModelling,
    "mlm": MaskedLanguageModelling,
    "match": Match,
    "span": Span,
    "tag": Tag,
    "translate": Translate,
}
"""Tasks by name; a configuration can name no other."""

__all__ = [
    "TASKS",
    "Answer",
    "Answering",
    "Classification",
    "Classify",
    "Continuation",
    "Counts",
    "Embed",
    "Embedding",
    "Evaluation",
    "FilledMasks",
    "LanguageModelling",
    "MaskedLanguageModelling",
    "Match",
    "MatchScore",
    "Prediction",
    "Rating",
    "Refusal",
    "Request",
    "Span",
    "Tag",
    "Tagging",
    "Task",
    "Translate",
    "Translation",
]
