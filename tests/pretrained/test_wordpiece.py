"""BERT's tokenizer gives the ids that transformers' gives, from either of its files."""

import json
import shutil
from pathlib import Path

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizer import Tokenizer
from regard.pretrained.sources import PACKAGES
from regard.pretrained.wordpiece import SPECIAL, read_wordpiece
from regard.system.errors import UserError
from tests.pretrained.odd_texts import odd_texts

MINILM = PACKAGES["minilm"].path().parent
SPELLED = tuple(usual for _, usual in SPECIAL.values())


def folder_with(folder: Path, *files: str, **settings: object) -> Path:
    """A folder with some of MiniLM's files, and settings of the tokenizer."""
    folder.mkdir()
    for file in files:
        shutil.copy(MINILM / file, folder)
    about = {"tokenizer_class": "BertTokenizer"} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


def both(folder: Path) -> tuple[Tokenizer, transformers.BertTokenizer]:
    return read_wordpiece(folder), transformers.BertTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def minilm() -> tuple[Tokenizer, transformers.BertTokenizer]:
    return both(MINILM)


def test_a_thousand_odd_texts_have_the_same_ids(minilm) -> None:
    ours, theirs = minilm
    texts = odd_texts(1000)
    assert len(set(texts)) > 950
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert ours.encode(texts) == expected
    assert len({token for row in expected for token in row}) > 500


@settings(max_examples=30)
@given(texts=st.lists(st.text(), min_size=1, max_size=8))
def test_any_text_has_the_same_ids(minilm, texts: list[str]) -> None:
    plain = [text for text in texts if not any(token in text for token in SPELLED)] or ["a"]
    ours, theirs = minilm
    assert ours.encode(plain) == theirs(plain, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
    ],
)
def test_a_vocabulary_alone_is_the_tokenizer_of_transformers(tmp_path: Path, options) -> None:
    ours, theirs = both(folder_with(tmp_path / "hf", "vocab.txt", **options))
    texts = odd_texts(300, seed=1)
    assert ours.encode(texts) == theirs(texts, add_special_tokens=False)["input_ids"]
    assert len(ours) == len(theirs) == 30_522


def test_both_files_give_the_same_tokenizer(minilm, tmp_path: Path) -> None:
    ours, _ = minilm
    other = read_wordpiece(folder_with(tmp_path / "hf", "vocab.txt"))
    texts = odd_texts(200, seed=2)
    assert other.encode(texts) == ours.encode(texts)
    assert other.special == ours.special


def test_special_ids_have_their_roles(minilm) -> None:
    ours, theirs = minilm
    ids = ours.special
    assert (ids.start, ids.end) == (theirs.cls_token_id, theirs.sep_token_id)
    assert (ids.padding, ids.unknown) == (theirs.pad_token_id, theirs.unk_token_id)
    assert ids.mask == theirs.mask_token_id


def test_other_tokens_may_have_these_roles(tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    tokens = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "a", "##b"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    names = {"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    about = names | {"mask_token": {"content": "<mask>", "lstrip": True}}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    tokenizer = read_wordpiece(folder)
    ids = tokenizer.special
    assert (ids.padding, ids.unknown, ids.start, ids.end, ids.mask) == (0, 1, 2, 3, 4)
    assert tokenizer.encode(["AB z"]) == [[5, 6, 1]]


def test_a_special_token_that_a_text_spells_out_ends_nothing(minilm) -> None:
    ours, _ = minilm
    (ids,) = ours.encode(["a [SEP] b [CLS]"])
    assert not {ours.end, ours.start} & {*ids}


def test_a_vocabulary_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    with pytest.raises(UserError, match=r"has no tokenizer: tokenizer\.json, or vocab\.txt\."):
        read_wordpiece(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\na\n")
    with pytest.raises(UserError, match=r"vocab\.txt has no \[SEP\], and nothing says"):
        read_wordpiece(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\na\n")
    with pytest.raises(UserError, match="a vocabulary with gaps cannot be imported"):
        read_wordpiece(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="its tokenizer cannot be read"):
        read_wordpiece(folder)
