"""One file a task: it joins data, model, loss, metric and prediction."""

from regard.tasks.translate import Prediction, Translate

TASKS = {"translate": Translate}
"""Tasks by name; a configuration can name no other."""

__all__ = ["TASKS", "Prediction", "Translate"]
