#!/usr/bin/env python3
"""Records what AutoTokenizer (transformers 5.23.0) makes of small tokenizers whose class it builds anew.

usage: record_classes.py FOLDER            writes FOLDER/classes/encoders.json; FOLDER has the tokenizers
       record_classes.py --check FOLDER    records again; fails where a byte differs
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

TEXTS = [
    "",
    "Hello world",
    "  leading and  two  spaces ",
    "{0}Hello{1} world{0}",
    " {1} a {0}  b",
    "12345 6 7{0}89 ½²",
    "don't WE'LL I'm ``so'' it's, no.",
    "e\u0301te\u0301 été naïve ﬁ",
    "Привет мир 你好世界 日本語 안녕",
    "line\n\nnext\r\n\tx{1}\n",
    "🙂   　",
    "<mask>word [MASK] word  <mask>▁▁ ▁x",
]

# The base, the class that tokenizer_config.json names, the model type, and other settings of the tokenizer.
CASES = [
    ("wordpiece_bert_uncased", "DistilBertTokenizer", "distilbert", {}),
    ("wordpiece_bert_cased", "DistilBertTokenizerFast", "llama", {"do_lower_case": False}),
    ("wordpiece_bert_uncased", "ElectraTokenizer", "electra", {"strip_accents": False}),
]
NAMED = {
    "wordpiece_bert_uncased": ["[SEP]", "[MASK]"],
    "wordpiece_bert_cased": ["[SEP]", "[MASK]"],
}


def case(folder, base, name, model_type, settings, texts, chat):
    from transformers import AutoTokenizer

    config = {**({"tokenizer_class": name} if name else {}), **settings}
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "tokenizer.json").write_text((folder / base / "tokenizer.json").read_text())
        (place / "tokenizer_config.json").write_text(json.dumps(config))
        (place / "config.json").write_text(json.dumps({"model_type": model_type}))
        tokenizer = AutoTokenizer.from_pretrained(place)
    tokenizer.chat_template = chat["chat_template"]
    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    rendered = tokenizer.apply_chat_template(chat["messages"], tokenize=False)
    return {
        "base": base,
        "config": config,
        "model_type": model_type,
        "edit": {},
        "class": type(tokenizer).__name__,
        "special": {key: getattr(tokenizer, key) for key in ("bos_token", "eos_token", "pad_token", "unk_token")},
        "size": len(tokenizer),
        "ids": ids,
        "around": [tokenizer("x", add_special_tokens=special).input_ids for special in (True, False)],
        "decoded": [
            tokenizer.decode(ids[3], skip_special_tokens=False),
            tokenizer.decode(ids[3], skip_special_tokens=True),
            tokenizer.decode(ids[8], skip_special_tokens=False),
        ],
        "chat": tokenizer(rendered, add_special_tokens=False).input_ids,
    }


def recorded(folder):
    chat = json.loads((folder / "classes/cases.json").read_text())
    texts = {base: [text.format(*named) for text in TEXTS] for base, named in NAMED.items()}
    cases = [case(folder, *c, texts[c[0]], chat) for c in CASES]
    rows = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
    return '{"texts":' + json.dumps(texts, ensure_ascii=False) + ',\n"cases":[' + rows + "]}\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[check])
    path = folder / "classes/encoders.json"
    text = recorded(folder)
    if not check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"recorded again, {path} differs")


if __name__ == "__main__":
    main(sys.argv[1:])
