#!/usr/bin/env python3
"""Trains small tokenizers (tokenizers 0.23.3, sentencepiece 0.2.3), and records what they do.

usage: record_tokenizers.py FOLDER [NAME...]    writes FOLDER/NAME/cases.json.gz, and tokenizer.json where there is none
       record_tokenizers.py --check FOLDER      records again what lies in FOLDER; fails where a byte differs
"""

import gzip
import json
import pathlib
import sys
import zlib

import tokenizers

import text_sample
import tokenizer_kinds
import tokenizer_variants

VERSION = "0.23.3"


def case(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    special = tokenizer.encode(text).ids
    return {
        "text": text,
        "ids": ids,
        "ids_with_special": None if special == ids else special,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "decoded_skip_special": tokenizer.decode(ids),
    }


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def recorded(path):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    rows = ",\n".join(compact(case(tokenizer, text)) for text in text_sample.cases())
    return '{"tokenizer":"tokenizer.json","cases":[' + rows + "]}\n"


def recorded_variants(path):
    """Steps put in place of the tokenizer's own: {"name", "set", "cases": [[text, ids, decoded]]}."""
    base = json.loads(path.read_text())
    lines = []
    for name, steps in tokenizer_variants.of(base["model"]["type"]):
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps({**base, **steps}))
        rows = []
        for text in tokenizer_variants.TEXTS:
            ids = tokenizer.encode(text).ids
            rows.append([text, ids, tokenizer.decode(ids, skip_special_tokens=False)])
        lines.append(compact({"name": name, "set": steps, "cases": rows}))
    return "[" + ",\n".join(lines) + "]\n"


LONG_WORDS = ["bpe_digits", "bpe_llama3", "spm_style_bpe", "sentencepiece_bpe", "bpe_shuffled"]


def recorded_long_words(folder):
    """What byte pair encoding makes of long words: the number of ids, and the CRC-32 of them as 32-bit integers."""
    rows = []
    for name in LONG_WORDS:
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        for what, text in text_sample.long_words().items():
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            crc = zlib.crc32(b"".join(i.to_bytes(4, "little") for i in ids))
            rows.append(compact({"tokenizer": name, "text": what, "ids": len(ids), "crc": crc}))
    return "[" + ",\n".join(rows) + "]\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) < 1 + check:
        sys.exit(__doc__)
    if tokenizers.__version__ != VERSION:
        sys.exit(f"tokenizers {tokenizers.__version__} is here; the numbers are those of {VERSION}")
    folder = pathlib.Path(arguments[check])
    names = [n for n in tokenizer_kinds.KINDS if not check or (folder / n).exists()]
    differing = []
    for name in arguments[1 + check :] or names:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        path = place / "tokenizer.json"
        if not path.exists():
            path.write_text(compact(json.loads(tokenizer_kinds.KINDS[name]().to_str())))
        texts = {"cases": recorded(path)}
        if name in tokenizer_variants.BASES:
            texts["variants"] = recorded_variants(path)
        for kind, text in texts.items():
            file = place / f"{kind}.json.gz"
            if not check:
                file.write_bytes(gzip.compress(text.encode(), mtime=0))
            elif not file.exists() or gzip.decompress(file.read_bytes()).decode() != text:
                differing.append(f"{name}/{file.name}")
        print(name, sum(f.stat().st_size for f in place.iterdir()), "bytes", flush=True)
    path = folder / "long_words.json"
    if not check:
        path.write_text(recorded_long_words(folder))
    elif path.read_text() != recorded_long_words(folder):
        differing.append(path.name)
    if differing:
        sys.exit(f"recorded again, these differ: {', '.join(differing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
