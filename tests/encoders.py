"""Small encoders with random weights, as an importer would write them."""

from pathlib import Path

from regard import config
from regard.data.tokenizer import Tokenizer
from regard.system.tensors import weights, write_tensors
from regard.tasks import Embed
from regard.verify.within import perturbed

TEXTS = ["a fine day", "the bank of the river", "the bank lends money", "a cat sat on the mat"]
"""What their vocabulary is made of."""


def embedder_run(folder: Path, *, seed: int = 1, texts: list[str] = TEXTS, **model: object) -> Path:
    """A run of task embed; model: keys of the section `model`."""
    tokenizer = Tokenizer.train(texts, kind="wordpiece", vocab_size=60)
    keys = {"kind": "bert", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}
    values = {
        "task": "embed",
        "seed": seed,
        "data": {"max_length": 16},
        "tokenizer": {"kind": "wordpiece", "vocab_size": len(tokenizer)},
        "model": {**keys, "pooling": "mean", **model},
    }
    task = Embed(config.validate(values, where="a test"), tokenizer)
    folder.mkdir(parents=True)
    for name, text in task.files.items():
        (folder / name).write_text(text)
    (folder / "config.yaml").write_text(config.dump(task.config))
    made = weights(perturbed(task.build_model()))
    write_tensors(folder / "model.safetensors", made, metadata=task.identity)
    return folder
