"""The last resort: what should not have gone wrong is one sentence, and its traceback is kept."""

import contextlib
import os
import platform
import shlex
import sys
import tempfile
import traceback

LONGEST = 300
"""Characters of an error that are shown in the sentence; the file has all of it."""


def keep_and_describe(error: BaseException) -> str:
    """One sentence on what nothing else has caught, and the file where its traceback is kept."""
    text = "".join(traceback.format_exception(error))
    path = _keep(f"{_circumstances()}\n\n{text}")
    if path is None:
        return f"{_sentence(error)} The traceback could not be kept in a file: {text}"
    return f"{_sentence(error)} The traceback is in {path}."


def _sentence(error: BaseException) -> str:
    if _is_out_of_memory(error):
        return "There is not enough memory for this: try a smaller batch, model or file."
    if isinstance(error, RecursionError):
        return "Something in the input is nested too deep to be read."
    fault = " ".join(traceback.format_exception_only(error)[-1].split())[:LONGEST].rstrip(".")
    return f"This is a defect of Regard, and no mistake of yours; please report it: {fault}."


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError) or "torch" not in sys.modules:
        return False
    from regard.system.memory import SIGNS

    return any(sign in str(error).lower() for sign in SIGNS)


def _circumstances() -> str:
    """The version, the machine and the command line."""
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for package in ("regard", "torch"):
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    command = shlex.join(["regard", *sys.argv[1:]])
    return (
        f"{', '.join(versions)}\nPython {platform.python_version()}, {platform.platform()}\n"
        f"{command}"
    )


def _keep(text: str) -> str | None:
    """The path of a new file in the temporary directory with this text; None if there is none."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="regard-", suffix=".txt", text=True)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except OSError:
        return None
    return path
