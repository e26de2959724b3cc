"""Ways to damage bytes, texts and JSON."""

import json
import random
from typing import Any

NASTY = (
    "", " ", "0", "-1", "1", "2", "3", "010", "1e400", "-0.0", "nan", "inf", "-inf", "1_000",
    "0x10", "1:30:00", "true", "no", "null", "~", "[]", "{}", "[1, 2]", "{a: 1}", "'",
    '"', "\\", "/", "..",
    ".", "/dev/null", "nope", "é", "日本", "\u202e", "e\u0301", "a\nb", "a\rb", "a\tb", "\x1b[2J",
    "99999999999999999999", "1" * 5000, "x" * 300, "%s", "{0}", "$HOME", "*", "--", "-", "=", "a=b",
    "&a [*a]", "!!python/object:os.system x", "2026-01-01", "\udcff", "word word", "beam", "lstm",
    "0.5", "1.5", "1e-30", "65536", "1000000",
)  # fmt: skip
"""Values that some program has stumbled over."""

BYTES = (b"", b"\x00", b"\xff\xfe", b"\n", b"\r", b"\t", b'"', b"{", b"\xed\xa0\x80", b"\\u0000")


def flipped(raw: bytes, random: random.Random) -> bytes:
    """One bit is another."""
    if not raw:
        return b"\x00"
    place = random.randrange(len(raw))
    changed = bytearray(raw)
    changed[place] ^= 1 << random.randrange(8)
    return bytes(changed)


def damaged(raw: bytes, random: random.Random) -> bytes:
    """Cut, repeated, overwritten, or with something put in."""
    begin, end = sorted(random.randrange(len(raw) + 1) for _ in range(2))
    nasty = random.choice(NASTY).encode(errors="surrogateescape")
    other = random.choice([*BYTES, nasty, random.randbytes(8)])
    return random.choice(
        [
            lambda: raw[:begin],
            lambda: raw[:begin] + other + raw[begin:],
            lambda: raw[:begin] + other + raw[end:],
            lambda: raw[:end] + raw[begin:],
            lambda: raw.decode(errors="replace").encode("utf-16-le"),
            lambda: flipped(raw, random),
            lambda: other,
        ]
    )()


def changed_text(text: str, random: random.Random) -> str:
    """A line, a word or a character of a text is another, twice or not there."""
    lines = text.splitlines(keepends=True)
    place = random.randrange(len(lines))
    line = lines[place]
    words = line.rstrip("\n").split(" ")
    word = random.randrange(len(words))
    nasty = random.choice(NASTY).replace("\n", " ")
    choices = [
        list,
        lambda: [line, line],
        lambda: [" ".join([*words[:word], nasty, *words[word + 1 :]]) + "\n"],
        lambda: [line.replace(":", random.choice(["", "::", ": &a", ": *a", ": |"]), 1)],
        lambda: [" " * random.randrange(1, 4) + line],
        lambda: [f"{nasty}: {random.choice(NASTY)}\n", line],
        lambda: [line.partition(":")[0] + f": {nasty}\n"],
    ]
    return "".join(lines[:place] + random.choice(choices)() + lines[place + 1 :])


def forged(value: Any, random: random.Random) -> str:
    """JSON of another shape in place of a value, or of a part of it."""
    others: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"a": {}}, 10**30, "1", [1]]
    if random.random() < 0.05:
        return "[" * 5000 + "]" * 5000
    if not isinstance(value, dict | list) or not value or random.random() < 0.2:
        return json.dumps(random.choice(others))
    copy = json.loads(json.dumps(value))
    place: Any = copy
    while True:
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if isinstance(place[key], dict | list) and place[key] and random.random() < 0.6:
            place = place[key]
            continue
        if random.random() < 0.3:
            del place[key]
        else:
            place[key] = random.choice(others)
        return json.dumps(copy)
