"""TextTask: what tasks on running text share; its data is not read line by line."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from regard.config import Config
from regard.data.splits import SPLITS, Split
from regard.data.text_source import IN_FOLDERS, TextSource
from regard.tasks.split_data import SplitData, data_warnings
from regard.tasks.split_text import SplitText, trained_on_warning
from regard.tasks.task import Task

MOST_SHOWN = 1_000
"""How many lines of a text are handed out as examples."""

Sources = dict[Split, TextSource]


def sources_of(config: Config) -> Sources:
    """Where the text of each split comes from."""
    data = config.data
    return {split: TextSource(getattr(data, split), split, data) for split in SPLITS}


class TextTask(Task):
    """A task whose data is running text, read as documents."""

    sources: Sources

    @abstractmethod
    def text(self, split: Split) -> SplitText | SplitData:
        """The text of a split, read once."""

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def lines(self, split: Split) -> Iterator[str]:
        """The lines of a split that are not empty."""
        pieces = self.sources[split].pieces()
        lines = (line for piece in pieces for line in piece.text.split("\n"))
        return (line for line in lines if line.split())

    def check_data(self) -> None:
        for split in SPLITS:
            self.text(split)

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        splits = list(splits)
        ignored = {
            source.path: source.ignored for source in map(self.sources.get, splits) if source
        }
        return [
            *data_warnings(
                {split: (self.sources[split], self.text(split).tally) for split in splits}
            ),
            *(
                f"{path}: {count:,} files were left out, which do not end in "
                f"{' or '.join(IN_FOLDERS)}."
                for path, count in ignored.items()
                if count
            ),
            *trained_on_warning([self.sources[split] for split in splits]),
        ]

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show(islice(self.lines("test"), MOST_SHOWN), fits)
