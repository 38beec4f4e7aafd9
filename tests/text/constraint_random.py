"""usage: constraint_random.py PROGRAM [PATTERNS [SEED]]
Random patterns on random texts: they match those that Python's re matches as a whole, and so do texts that are
drawn from a pattern; found in part, they are those that re.search finds."""
import json
import random
import re
import subprocess
import sys
import warnings

from python_characters import differs

LETTERS = "abcABC019 _-é\n😀ſKσςΣ"
LITERALS = ["a", "b", "c", "A", "K", "1", "0", " ", "_", "-", "é", "😀", "σ", "\\.", "\\n", "\\x61", "\\u00e9", "\\*"]
CLASSES = [".", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S"]
SETS = ["[abc]", "[^a]", "[a-c0-1]", "[^a-c]", "[\\w-]", "[^\\W\\d]", "[]a]", "[^]a]", "[a\\-c]", "[é-ü]", "[\\s_]", "[-a]",
        "[Σ]", "[k-s]", "[\\x61-\\x63]", "[😀-😂]", "[.*+]", "[^\\n]"]
TIMES = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{,2}", "{1,}", "{2,3}?", "{0}", "{1,3}"]
ODD = ["(?P<1>a)", "(?P<a b>a)", "(?P<é1>a)", "(?P<y>a)(?P<y>b)", "(?<y>a)", "(?i-i:a)", "(?i-:a)", "(?-i)", "(?ii:a)", "\\z",
       "[\\z]", "\\8", "[\\8]", "[\\1]", "\\400", "\\x4", "(?#c)", "(?#\\))", "(?#", "(?", "[", "[]", "[c-a]", "[\\d-z]", "{2,1}"]
OPENS = ["(", "(?:", "(?P<x{}>", "(?i:", "(?s:", "(?-i:", "(?i-s:"]


class Patterns:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def atom(self, depth):
        r = self.random
        kind = r.random()
        if kind < 0.5 or depth == 0:
            return r.choice(LITERALS)
        if kind < 0.6:
            return r.choice(CLASSES)
        if kind < 0.75:
            return r.choice(SETS)
        self.names += 1
        return r.choice(OPENS).format(self.names) + self.choice(depth - 1) + ")"

    def terms(self, depth):
        r = self.random
        text = ""
        for _ in range(r.choice([0, 1, 1, 2, 2, 3])):
            text += self.atom(depth)
            if r.random() < 0.35:
                text += r.choice(TIMES)
        return text

    def choice(self, depth):
        return "|".join(self.terms(depth) for _ in range(self.random.choice([1, 1, 1, 2, 3])))

    def next(self):
        r = self.random
        text = self.choice(3)
        if r.random() < 0.15:
            text = r.choice(["^", "\\A"]) + text
        if r.random() < 0.15:
            text += r.choice(["$", "\\Z"])
        if r.random() < 0.2:
            text = "(" + text + ")" + r.choice(["", "b", "a?"])
        if r.random() < 0.1:
            place = r.randrange(len(text) + 1)
            text = text[:place] + r.choice(ODD) + text[place:]
        return r.choice(["", "", "", "(?i)", "(?s)", "(?is)"]) + text

    def text(self):
        r = self.random
        letters = r.choice([LETTERS, "abc", "aA1 ", "aé"])
        return "".join(r.choice(letters) for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4, 6])))


def in_json_schemas(pattern):
    """Python's $ also holds before a last newline, and JSON schemas' does not."""
    return re.sub(r"\$$|\$(?=\))", r"\\Z", pattern)


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    patterns = Patterns(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    warnings.simplefilter("ignore")
    lines = []
    for number in range(count):
        kind = "part" if number % 3 == 2 else "pattern"
        lines.append({kind: patterns.next(), "texts": [patterns.text() for _ in range(20)], "samples": 5})
    done = subprocess.run([program], input="\n".join(map(json.dumps, lines)) + "\n", text=True, check=True,
                          stdout=subprocess.PIPE, encoding="utf-8")
    bad = compared = refused = matched = 0
    for line, answer in zip(lines, map(json.loads, done.stdout.split("\n")[:-1]), strict=True):
        part = "part" in line
        pattern = line["part"] if part else line["pattern"]
        try:
            compiled = re.compile(in_json_schemas(pattern) if part else pattern)
        except re.error as error:
            if "refused" not in answer and not (part and "(?<" in pattern):
                bad += 1
                print(f"{pattern!r}: re refuses it: {error}")
            continue
        if "refused" in answer:
            why = answer["refused"]
            refused += 1
            expected = ("possessive", "accepted only at the", "an anchor cannot", "no text matches", "flags of the whole", "too large")
            if not any(one in why for one in expected):
                bad += 1
                print(f"{pattern!r}: refused: {why}")
            continue
        find = compiled.search if part else compiled.fullmatch
        for text, got in zip(line["texts"], answer["matches"], strict=True):
            compared += 1
            wanted = find(text) is not None
            matched += wanted
            # Classes of a part have less than those of re.
            fewer = part and not text.isascii() and re.search(r"\\[wWdDsS]", pattern)
            if wanted != got and not (fewer and wanted):
                bad += 1
                print(f"{pattern!r}: {text!r}: re says {wanted}")
        for text in answer["samples"]:
            by_case = "(?i" in pattern or "(?s" in pattern
            strange = any((differs(c) and not part) or (by_case and ord(c) > 127 and c not in LETTERS) for c in text)
            if strange or len(text) > 40:
                continue
            compared += 1
            if find(text) is None:
                bad += 1
                print(f"{pattern!r}: the sample {text!r} does not match")
    print(f"{count} patterns, {refused} refused, {compared} texts, of which {matched} match, {bad} differences")
    return 1 if bad or refused > count / 10 or matched < count else 0


sys.exit(main())
