"""Pickles are refused: to read one is to run whatever program it holds."""

from pathlib import Path

from regard.system.errors import UserError

SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def refuse_pickle(path: Path) -> None:
    """Refuse a file of torch's own format, with the safe way to bring its weights here."""
    if path.suffix.lower() in SUFFIXES:
        raise UserError(
            f"{path} is a pickle, and opening a pickle runs the program in it: it is not read. "
            f"Where you trust its source, open the model there with transformers and save it with "
            f"save_pretrained, which writes model.safetensors; then import that folder."
        )
