"""One file a task: it joins data, model, loss, metric and prediction."""

from regard.tasks.classify import Classify
from regard.tasks.lm import LanguageModelling
from regard.tasks.task import Prediction, Task
from regard.tasks.translate import Translate

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "lm": LanguageModelling,
    "translate": Translate,
}
"""Tasks by name; a configuration can name no other."""

__all__ = ["TASKS", "Classify", "LanguageModelling", "Prediction", "Task", "Translate"]
