"""Fine-tuning `transformers` beside our own model: the same weights, batches, optimiser, schedule.

What `benchmarks.tag_hugging_face` and `benchmarks.span_hugging_face` share: both models begin with
the weights of one run, whose heads are begun anew by the seed, and are trained in turn by a plain
loop on the batches that `regard train` would give.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.interleave import print_table
from regard.config import Config
from regard.models import Bert
from regard.pretrained.names import Table, to_theirs
from regard.runs.configuring import configure
from regard.runs.initial_weights import InitialWeights
from regard.system.engine import Engine
from regard.system.tensors import weights
from regard.tasks.pair_task import PairTask
from regard.training.schedules import make_schedule


@dataclass
class Trained:
    """What one fine-tuning took and gave."""

    examples_per_second: float
    loss: float
    """On the training data, over the last tenth of the updates."""
    metrics: dict[str, float]


def prepared(recipe: str, settings: list[str], *, data: str, init: str) -> tuple[PairTask, Any]:
    """The task of a recipe, and its model with the weights of a run; the head is new."""
    config = configure(recipe, [*settings, f"init={init}", f"data.directory={data}"])
    initial = InitialWeights.read(config.init)
    config, task = initial.make_task(config)
    model = task.build_model()
    initial.copy_to(model, task, say=print)
    if not isinstance(task, PairTask) or not isinstance(model.body, Bert):
        raise SystemExit("the run of --init must be a BERT")
    return task, model


def bert_config(config: Config, *, vocab: int, **more: Any) -> Any:
    """The configuration that `transformers` has for the body of a run."""
    from transformers import BertConfig

    model = config.model
    return BertConfig(
        vocab_size=vocab,
        hidden_size=model.d_model,
        num_hidden_layers=model.n_layers,
        num_attention_heads=model.n_heads,
        intermediate_size=model.d_ff,
        hidden_dropout_prob=model.dropout,
        attention_probs_dropout_prob=model.attention_dropout,
        max_position_embeddings=model.max_positions or config.data.max_length,
        layer_norm_eps=model.norm_epsilon,
        **more,
    )


def copy_weights(ours: nn.Module, theirs: nn.Module, table: Table, *, d_model: int) -> None:
    """Our weights in their model; a pooler, which these heads do not use, may be left out."""
    values = to_theirs(weights(ours), table, sizes=(d_model,) * 3)
    result = theirs.load_state_dict(values, strict=False)
    if result.missing_keys or any("pooler" not in name for name in result.unexpected_keys):
        raise SystemExit(f"the models differ: {result}")


def fine_tune(
    task: PairTask, model: nn.Module, loss_of: Callable[[nn.Module, Any], Tensor]
) -> tuple[float, float]:
    """Train a model on the task's batches; examples per second, and the last losses' mean.

    loss_of: the mean loss of a batch.
    """
    train, batches = task.config.training, task.batches()
    epochs = train.epochs or 1
    steps = train.steps or task.steps(epochs=epochs, accumulate=1)
    schedule = make_schedule(
        train.schedule,
        lr=train.lr,
        warmup=train.warmup,
        steps=steps,
        d_model=task.config.model.d_model,
        cycles=train.cycles,
    )
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in model.parameters() if weight.dim() > 1]},
        {"params": [weight for weight in model.parameters() if weight.dim() < 2]},
    ]
    groups[1]["weight_decay"] = 0.0  # vectors: biases and norms
    optimiser = torch.optim.AdamW(groups, weight_decay=train.weight_decay)
    model.train()
    torch.manual_seed(task.config.seed)
    step, examples, losses, began = 0, 0, list[float](), time.perf_counter()
    while step < steps:
        for batch in batches.epoch(step // max(1, batches.count(0))):
            if step == steps:
                break
            step += 1
            for group in optimiser.param_groups:
                group["lr"] = schedule(step)
            loss = loss_of(model, batch)
            optimiser.zero_grad()
            loss.backward()
            if train.clip:
                nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimiser.step()
            losses.append(loss.item())
            examples += len(batch.source)
    speed = examples / (time.perf_counter() - began)
    model.eval()
    last = losses[-max(1, len(losses) // 10) :]
    return speed, sum(last) / len(last)


def ours(task: PairTask, model: nn.Module) -> Trained:
    """Fine-tune and measure our model."""

    def loss_of(model: nn.Module, batch: Any) -> Tensor:
        return task.loss(model, batch, {}).total(batch.counts)

    speed, loss = fine_tune(task, model, loss_of)
    evaluation = task.evaluate(model, "valid", engine=Engine(), metrics=["f1"])
    return Trained(speed, loss, evaluation.metrics)


def options_of(description: str | None, *, recipe: str) -> argparse.Namespace:
    """The options of both benchmarks."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default=recipe)
    parser.add_argument("--data", required=True, help="directory of the recipe's files")
    parser.add_argument("--init", required=True, help="a run of a BERT, as of regard import minilm")
    parser.add_argument("-s", "--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def report(ours: Trained, theirs: Trained, names: list[str]) -> None:
    """Both side by side, and the ratio of their speeds."""
    print_table(
        ["", "examples/s", "training loss", *names],
        [
            [
                name,
                f"{trained.examples_per_second:.1f}",
                f"{trained.loss:.4f}",
                *(f"{trained.metrics[metric]:.4f}" for metric in names),
            ]
            for name, trained in (("regard", ours), ("transformers", theirs))
        ],
    )
    print(f"speed: {ours.examples_per_second / theirs.examples_per_second:.2f} times")
