#!/usr/bin/env python3
"""Writes the models of corpus/sentencepiece: each kind, of a few pieces, as a rule gives them; and broken ones.

usage: sentencepiece_models.py FOLDER
"""

import pathlib
import struct
import sys

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE, WORD, CHAR = range(1, 5)
MARK = "▁"


def integer(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a message: an integer, a float, or bytes."""
    if isinstance(value, int):
        return integer(number << 3) + integer(value)
    if isinstance(value, float):
        return integer(number << 3 | 5) + struct.pack("<f", value)
    value = value if isinstance(value, bytes) else value.encode()
    return integer(number << 3 | 2) + integer(len(value)) + value


def charsmap(rules):
    """A darts-clone double array of the texts, and their replacements. 255 units lie behind each base."""
    replacements, offsets = b"", {}
    for text, by in rules.items():
        offsets[text.encode()] = len(replacements)
        replacements += by.encode() + b"\0"
    units, taken = {}, set()

    def place(prefix, unit, flags):
        labels = {key[len(prefix)] for key in offsets if key.startswith(prefix) and key != prefix}
        leaf = prefix in offsets
        wanted = labels | ({0} if leaf else set())
        base = next(b for b in range(1, 4096) if b not in taken and not any(b ^ c in units or b ^ c == 0 for c in wanted))
        taken.add(base)
        units[unit] = flags | (unit ^ base) << 10 | (1 << 8 if leaf else 0)
        units.update({base ^ c: None for c in wanted})
        if leaf:
            units[base] = 1 << 31 | offsets[prefix]
        for c in sorted(labels):
            place(prefix + bytes([c]), base ^ c, c)

    place(b"", 0, 0)
    count = (max(units) | 255) + 1
    array = struct.pack(f"<{count}I", *(units.get(i) or 0 for i in range(count)))
    return struct.pack("<I", len(array)) + array + replacements


def model(kind, pieces, trainer=(), normalizer=b""):
    head = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    out = b"".join(field(1, field(1, text) + field(2, score) + field(3, type)) for text, score, type in [*head, *pieces])
    return out + field(2, field(3, kind) + b"".join(field(n, v) for n, v in trainer)) + field(3, normalizer)


def scored(*texts, type=NORMAL):
    return [(text, -1.0 - i / 4, type) for i, text in enumerate(texts)]


WORDS = scored(MARK + "ab", "aa", "ab", MARK + "it", "'s", "é", MARK, "a", "b", "i", "t", "s", "1", "2", ",", "aab", "fi")
BYTES = [(f"<0x{b:02X}>", 0.0, BYTE) for b in range(256)]
RULES = {"ﬁ": "fi", "é": "é", "…": "...", "\r": " ", "\t": " ", "\x01": ""}

OUTSIDE = struct.pack("<257I", 1024, *(1 << 9 | 1023 << 10 | 97 for _ in range(256)))

MODELS = {
    "unigram": model(UNIGRAM, WORDS, normalizer=field(2, charsmap(RULES))),
    "unigram_bytes": model(UNIGRAM, BYTES + WORDS, [(35, 1)], field(3, 0) + field(4, 0)),
    "bpe": model(BPE, WORDS + scored("<x>", "<xx>", "a1", type=USER_DEFINED) + scored("it", type=UNUSED)),
    "word": model(WORD, WORDS, [(24, 1)]),
    "char": model(CHAR, WORDS, normalizer=field(5, 0)),
    "outside": model(CHAR, WORDS, normalizer=field(2, OUTSIDE + b"x\0")),
    "nested": model(CHAR, scored(*("a" * n for n in range(1, 99)), type=USER_DEFINED)),
    "empty_piece": model(BPE, scored("", "a", type=USER_DEFINED)),
    "zero_in_piece": model(UNIGRAM, scored("a\0b", "a", "a\0", type=USER_DEFINED)),
}


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    for name, content in MODELS.items():
        (pathlib.Path(arguments[0]) / f"{name}.model").write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
