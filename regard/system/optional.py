"""Packages that only some data needs."""

import importlib
from types import ModuleType

from regard.system.errors import UserError


def needed(package: str, *, extra: str, what: str) -> ModuleType:
    """The package, or a sentence on how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UserError(
            f"{what} needs the package {package}, which is not installed. "
            f"Install it with: pip install 'regard[{extra}]'"
        ) from None
