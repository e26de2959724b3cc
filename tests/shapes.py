"""Which functions the shape checker looks at: those that name a shape.

jaxtyping's import hook wraps every function of a module, and beartype then checks plain types too,
which mypy has done already.
"""

import typing
from collections.abc import Callable

import jaxtyping

_jaxtyped = jaxtyping.jaxtyped


def names_a_shape(defined: typing.Any) -> bool:
    """Whether a function, or a field of a class, has an annotation with a shape in it.

    An annotation in quotes is not read, and counts as one.
    """
    parents = defined.__mro__ if isinstance(defined, type) else (defined,)
    annotations = [
        annotation
        for parent in parents
        for annotation in getattr(parent, "__annotations__", {}).values()
    ]
    return any(
        isinstance(annotation, str | typing.ForwardRef) or "jaxtyping" in repr(annotation)
        for annotation in annotations
    )


def _checked(*, typechecker: Callable) -> Callable:
    """What the import hook puts on every function and class."""

    def decorate(defined: typing.Any) -> typing.Any:
        return _jaxtyped(defined, typechecker=typechecker) if names_a_shape(defined) else defined

    return decorate


def check_shapes_alone() -> None:
    """For modules that are imported from now on."""
    jaxtyping.jaxtyped = _checked
