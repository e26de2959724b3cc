"""The tags that a tagger can give, learned from training data, and what is wrong with others."""

from regard.config import Config
from regard.data.row_source import RowSource
from regard.data.rows import Fault, Row
from regard.data.tag_schemes import InvalidTagsError, iob2, iob2_tags
from regard.system.errors import UserError
from regard.tasks.labels import Labels, normal_name


def labels_of(config: Config, train: RowSource) -> Labels:
    """All tags that the training data needs: O, and B and I of every type of entity."""
    scheme, tally = config.data.scheme, train.new_tally()
    seen: set[str] = set()
    for row in train.rows(tally=tally):
        try:
            seen.update(iob2(row.target, scheme))
        except InvalidTagsError as error:
            tally.meet(fault_of(row, train, error))
    names = sorted(seen) if scheme == "none" else iob2_tags(seen)
    normalize = config.tokenizer.normalize
    names = list(dict.fromkeys(normal_name(name, normalize) for name in names))
    if len(names) < 2:
        what = f"one tag, {names[0]!r}" if names else "no usable line"
        raise UserError(f"{train.path}: data.train={config.data.train!r} has only {what}.")
    return Labels(names, normalize=normalize)


def fault_of(row: Row, source: RowSource, error: InvalidTagsError) -> Fault:
    """Tags that cannot be used, by the line of the first that is at fault."""
    return Fault(
        source.place(1), row.line_of(error.number), error.reason, "the tags are not valid or known"
    )
