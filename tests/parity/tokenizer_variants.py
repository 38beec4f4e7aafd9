"""Steps that take the place of a tokenizer's own, one after the other: every kind, and what each can be told."""

BASES = {"unigram_t5", "wordpiece_bert_uncased"}

TEXTS = [
    "  The quick  river's 12 bridges, it's 3.5!  ",
    "Ünïcode e\u0301 ﬁ ２ Ǆ can't ''so''",
    "你好 world\tthe\nend ",
    "a▁b_c--d don 't . no",
    "",
]


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(scheme, is_split, replacement="▁"):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": is_split}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

NORMALIZERS = {
    "none": None,
    **{form: {"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase")},
    "strip_left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "strip_right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "accents": sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "NFC"}),
    "replace_string": replace({"String": "the"}, "THE"),
    "replace_pattern": replace({"Regex": r"\s{2,}|\d+"}, " # "),
    "prepend": {"type": "Prepend", "prepend": "▁"},
    "bert_plain": {
        "type": "BertNormalizer",
        "clean_text": False,
        "handle_chinese_chars": False,
        "strip_accents": True,
        "lowercase": False,
    },
    "bert_lowercase_accents": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": False,
        "lowercase": True,
    },
}

PRE_TOKENIZERS = {
    "none": None,
    **{name: {"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")},
    **{f"punctuation_{b}": {"type": "Punctuation", "behavior": b} for b in BEHAVIORS},
    **{f"split_{b}": split({"Regex": r"[aeiou]|\s+"}, b) for b in BEHAVIORS},
    "split_inverted": split({"Regex": r"\w+"}, "Removed", True),
    "split_string": split({"String": "r"}, "MergedWithNext"),
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "e"},
    **{f"fixed_length_{n}": {"type": "FixedLength", "length": n} for n in (1, 5, 1000)},
    "digits": {"type": "Digits", "individual_digits": True},
    "digits_together": {"type": "Digits", "individual_digits": False},
    **{f"metaspace_{scheme}_split": metaspace(scheme, True) for scheme in ("always", "first", "never")},
    **{f"metaspace_{scheme}_whole": metaspace(scheme, False) for scheme in ("always", "first", "never")},
    "metaspace_other_sign": metaspace("always", True, "_"),
}

DECODERS = {
    "none": None,
    "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "wordpiece_plain": {"type": "WordPiece", "prefix": "##", "cleanup": False},
    **{f"metaspace_{scheme}": metaspace(scheme, True) for scheme in ("always", "first", "never")},
    "fuse": {"type": "Fuse"},
    "bytes": sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"}),
    "strip": sequence("decoders", {"type": "Fuse"}, {"type": "Strip", "content": "▁", "start": 1, "stop": 2}),
    "strip_each": {"type": "Strip", "content": "#", "start": 1, "stop": 0},
    "replace": sequence("decoders", replace({"String": "▁"}, " "), {"type": "Fuse"}),
    "replace_pattern": replace({"Regex": "[aeiou]"}, "*"),
    "suffix": {"type": "BPEDecoder", "suffix": "e"},
    "ctc": {"type": "CTC", "pad_token": "i", "word_delimiter_token": "▁", "cleanup": True},
    "ctc_plain": {"type": "CTC", "pad_token": "▁", "word_delimiter_token": "e", "cleanup": False},
}


def template(single):
    special = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("A", "B")]
    sequence_a = {"Sequence": {"id": "A", "type_id": 0}}
    parts = {"before": [special[0], sequence_a], "around": [special[1], special[0], sequence_a, special[1]]}[single]
    tokens = {"A": {"id": "A", "ids": [2, 3], "tokens": ["x", "y"]}, "B": {"id": "B", "ids": [1], "tokens": ["z"]}}
    return {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": tokens}


POST_PROCESSORS = {
    "none": None,
    "template_before": template("before"),
    "template_around": template("around"),
    "bert": {"type": "BertProcessing", "sep": ["s", 1], "cls": ["c", 2]},
    "roberta": {
        "type": "RobertaProcessing",
        "sep": ["s", 1],
        "cls": ["c", 2],
        "trim_offsets": True,
        "add_prefix_space": False,
    },
    "two": sequence(
        "processors", template("before"), {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    ),
}


def of(model):
    """[(name, {step: what it is})] for tokenizers of that model."""
    steps = {"normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS}
    if model == "Unigram":
        steps |= {"post_processor": POST_PROCESSORS}
    steps |= {"decoder": DECODERS}
    return [(f"{step}_{name}", {step: value}) for step, kinds in steps.items() for name, value in kinds.items()]
