"""usage: constraint_oracle.py PROGRAM TOKENIZER_DIR
Forty patterns on all tokens of a vocabulary: those whose text matches as a whole are those that Python's re finds, and
each may come first, as may each that begins one of these. 77: there is no such tokenizer."""
import json
import os
import re
import subprocess
import sys

from python_characters import differs

PATTERNS = r"""
yes|no
[a-z]+
 ?[A-Z][a-z]*
[^aeiou ]+
\d+
\d{2,4}
\w+
\w{3}
\W+
\s+
\S+
\D+
.{3}
.+
-?(0|[1-9][0-9]*)
[0-9]+(\.[0-9]+)?
"[^"]*"
(a|b)*abb?
([a-c]{2}-?)*[x-z]?
(?i)[aeiou]+
(?i)straße|the|\u0130
(?i: the)
[\w-]+
[^\W\d_]+
[\u4e00-\u9fff]+
[é-ü]+
日(本(語)?)?
😀+
(foo|foobar|fo)
(?P<word>[a-z]+)(?:ing|ed)
 the|the |The
[+*/=<>-]+
[][(){}]+
\.{1,3}
(?s).{2}
.
a{,3}
[a-z]{4}
[A-Z]{2,}s?
 ?[a-z]{1,3}?
""".strip("\n").split("\n")


def main():
    program, folder = sys.argv[1:]
    if not os.path.isdir(folder):
        return 77
    assert len(PATTERNS) == 40, len(PATTERNS)
    lines = subprocess.run([program, folder], input="\n".join(PATTERNS) + "\n", text=True, check=True,
                           stdout=subprocess.PIPE, encoding="utf-8").stdout.splitlines()
    tokens = {number: bytes.fromhex(text) for number, text in enumerate(json.loads(lines[0])) if text}
    texts = {}
    for number, encoded in tokens.items():
        try:
            texts[number] = encoded.decode()
        except UnicodeDecodeError:
            pass
    bad = 0
    for pattern, line in zip(PATTERNS, lines[1:], strict=True):
        compiled = re.compile(pattern)
        classes = re.search(r"\\[wWsS]|\(\?i", pattern) is not None
        got = json.loads(line)
        whole, allowed = set(got["whole"]), set(got["allowed"])
        matches = set()
        for number, text in texts.items():
            if classes and any(differs(c) for c in text):
                continue
            wanted = compiled.fullmatch(text) is not None
            if wanted:
                matches.add(number)
            if wanted != (number in whole) or (wanted and number not in allowed):
                bad += 1
                print(f"{pattern!r}: {text!r}: re says {wanted}")
        beginnings = {tokens[n][:size] for n in matches for size in range(1, len(tokens[n]) + 1)}
        for number, encoded in tokens.items():
            if encoded in beginnings and number not in allowed:
                bad += 1
                print(f"{pattern!r}: {encoded!r} begins a match and is not allowed")
    print(f"{len(PATTERNS)} patterns, {len(texts)} texts, {bad} differences")
    return 1 if bad else 0


sys.exit(main())
