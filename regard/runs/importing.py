"""A foreign model as a run directory: configuration, tokenizers and weights, and no training."""

from pathlib import Path

from regard import config as configuration
from regard.pretrained.imported import Imported
from regard.pretrained.sources import read_foreign
from regard.runs.creating import refuse_to_overwrite
from regard.system.errors import UserError
from regard.system.files import saying_what_failed, writing
from regard.system.tensors import write_tensors
from regard.tasks import TASKS


def import_run(source: str, out: Path) -> Imported:
    """Write the model that a name or a path stands for as a run; what was imported."""
    refuse_to_overwrite(out)
    imported = read_foreign(source)
    try:
        task = TASKS[imported.config.task].open(imported.config, imported.files)
    except ValueError as error:
        raise UserError(f"{source}: {error}.") from None
    for name, weight in imported.weights.items():
        if not weight.isfinite().all():
            raise UserError(
                f"{source}: {name} has numbers that are not finite (NaN or infinity): "
                f"copy it again."
            )
    with saying_what_failed(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out) as aside:
        aside.mkdir()
        for name, text in imported.files.items():
            (aside / name).write_text(text, encoding="utf-8")
        written = configuration.dump(imported.config)
        (aside / "config.yaml").write_text(written, encoding="utf-8")
        write_tensors(aside / "model.safetensors", imported.weights, metadata=task.identity)
    return imported
