"""Strings that tokenizers stumble over: Chinese, accents, emoji, control characters."""

import random
import unicodedata

POOLS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789.,;:!?-_'\"()[]{}#@/\\|~`^*+=<>$%&",
    "我爱你苹果狗的一是不了人在有他这上大来㐀鿕𠀀𪜀丽豈",
    "éèêëàâäçñöüßøåÉÈÀÑÖÜẞİıǅſ",
    "\u0301\u0308\u0327\u0323\u20d7\u0345\u3099",
    "😀🎉👩‍👩‍👧👍🏽🇩🇪❤️☃️™",
    "\x00\x01\x07\x08\x0b\x0c\x1b\x7f\x85\xad\u200b\u200d\u200e\u2028\u2029\ufeff\ufffd",
    " \t\n\r\u00a0\u2003\u3000",
    "кириллицаЁёΑΩάςאבגدرسकिताबไทยかなカナ한글가",
    "–—…“”‘’«»¿¡、。「」！？½²ﬁﬃⅣ㎏",
    "\ue000\U000f0000\u0378\U0010ffff",
)
WORDS = ("the", "running", "unaffable", "Hello", "naïve", "##ing", "don't", "x" * 101, "y" * 100)


def odd_texts(count: int, *, seed: int = 0) -> list[str]:
    """So many strings, the same for the same seed; no special token is spelled out."""
    chosen = random.Random(seed)
    return [_odd_text(chosen) for _ in range(count)]


def _odd_text(chosen: random.Random) -> str:
    parts = []
    for _ in range(chosen.randrange(1, 12)):
        if chosen.random() < 0.3:
            parts.append(chosen.choice(WORDS))
        else:
            pool = chosen.choice(POOLS)
            parts.append("".join(chosen.choices(pool, k=chosen.randrange(1, 5))))
        if chosen.random() < 0.4:
            parts.append(" ")
    text = "".join(parts)
    form = chosen.choice(("NFC", "NFD", "NFKC", ""))
    return unicodedata.normalize(form, text) if form else text
