"""Synthetic text to train tokenizers on, and strings that try them: the same ones every time."""

import json
import pathlib
import random

DATASETS = pathlib.Path(__file__).parent.parent / "golden/data/datasets"

PLAIN = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    " \n\t \r\n ",
    "a",
    " a",
    "a ",
    "  a  b   c  ",
    "The quick river opens the ancient bridge.",
    "Hello, world! How's it going? I'm fine; they've said \"no\".",
    "do n't can't we 're ''quoted'' ``so``",
    "1234567890 3.14 1,000,000 0x1F 2e-5 ½ ² Ⅷ ①",
    "snake_case camelCase kebab-case a/b\\c a.b,c;d:e",
    "$^+=<>|~`@#%&*(){}[]",
    "«guillemets» “curly” ‘single’ — en–dash… ¿qué? ¡sí!",
    "naïve café Ångström ÀÉÎÕÜ ñ ç ß ẞ ﬁ ﬀ œ Æ",
    "e\u0301 a\u030a o\u0308\u0304 n\u0303 \u0301x",  # combining marks, one of them alone
    "ǅ İ ı ſ ς Σ ŉ ΐ",
    "Ω ≤ π² ∑ √ ∞ µ µ",
    "Привет, мир! Ёлка й ё",
    "Ελληνικά ἄνθρωπος",
    "שלום עולם שָׁלוֹם",
    "مرحبا بالعالم مَرْحَبًا لآ",
    "नमस्ते दुनिया क्षि",
    "สวัสดีชาวโลก",
    "你好，世界！汉字𠀀",
    "日本語の文章です。カタカナ ｶﾀｶﾅ ﾊﾟ が か\u3099",
    "한국어 문장 각 \u1112\u1161\u11ab",
    "Ｆｕｌｌｗｉｄｔｈ　１２３",
    "😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ 🏴",
    "zero\u200bwidth\u200djoin\ufeffbom\u00adhyphen\u2060",
    "nbsp\u00a0thin\u2009ideographic\u3000line\u2028para\u2029nel\u0085vt\x0bff\x0c",
    "control\x00\x01\x1f\x7f\x9f end",
    "private\ue000 noncharacter\ufffe\uffff replacement\ufffd",
    "▁ already ▁▁ marked▁",
    "##ing ## un##able",
    "<s> </s> <unk> [CLS] [SEP] [MASK] <pad> <0x41> <0xE2>",
    "[MASK]word word[MASK] [MASK] , x<mask>y",
    "don't stop . no , really ? yes ! it 's we 've n't",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
]


def sentences():
    for name in ("lm_standard", "lm_content_field", "train_lm"):
        for line in (DATASETS / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            yield row.get("text") or row["content"]


def training_text():
    """The sentences, and words of other scripts often enough to become pieces."""
    rng = random.Random(17)
    words = " ".join(PLAIN[10:31]).split()
    return [*sentences(), *(" ".join(rng.choices(words, k=8)) for _ in range(150))]


def adversarial():
    rng = random.Random(29)
    letters = "abcdefghijklmnopqrstuvwxyz"
    some = [0x300, 0x301, 0x308, 0x3099, 0x200D, 0xFE0F, 0x1F600, 0x4E00, 0xAC00]
    some += [0x915, 0x94D, 0x61, 0x20, 0x2581, 0xFB01]
    yield "a" * 700
    yield " " * 300
    yield "ab" * 300 + " " + "ba" * 150
    yield "".join(rng.choices(letters, k=600))
    yield "the" * 200
    yield "x" * 99 + " " + "y" * 100 + " " + "z" * 101  # WordPiece's limit of a word is 100
    yield "é" * 101 + " " + "e\u0301" * 60
    yield "a" + "\u0301\u0308" * 120
    yield "".join(chr(rng.choice(some)) for _ in range(400))
    yield "你好" * 120
    yield "!?" * 150
    for _ in range(12):
        yield "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xA0, 0x250)])) for _ in range(40))
    for _ in range(12):
        yield "".join(chr(character(rng)) for _ in range(20))


def character(rng):
    while True:
        c = rng.choice([rng.randrange(1, 0x3000), rng.randrange(0x3000, 0x10000), rng.randrange(0x10000, 0x110000)])
        if not 0xD800 <= c < 0xE000:
            return c


def cases():
    rows = list(sentences())
    return list(dict.fromkeys([*PLAIN, *rows[::6], *adversarial()]))


def long_words():
    """{name: a text without a place to cut}"""
    state, syllables = 1, ["th", "e", "in", "g", "ri", "ver", "a", "n", "c", "b", "s"]

    def draw(bound):
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        return state // 2**16 % bound

    return {
        "a letter": "a" * 20000,
        "two letters": "ab" * 10000,
        "three letters": "".join("abc"[draw(3)] for _ in range(20000)),
        "random letters": "".join(chr(97 + draw(26)) for _ in range(20000)),
        "syllables": "".join(syllables[draw(11)] for _ in range(12000)),
        "spaces": " " * 20000,
        "lines": "\n" * 20000,
        "emoji": "\U0001f44d\U0001f3fd" * 3000,
        "marks": "e" + "\u0301" * 10000,
    }
