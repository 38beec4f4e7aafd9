#!/usr/bin/env python3
"""Records the scores that transformers 5.23.0 gives texts with a sequence classifier made of a language model: its head
is the one that it draws right after set_seed(42).

usage: record_scores.py MODELS FILE    writes tests/golden/reward/scores.json; MODELS is tests/golden/models
"""

import json
import os
import sys

import torch
import transformers

torch.set_num_threads(1)
TEXTS = ["The quick brown fox", "the river", "What about the mountain: 690 + 753", "a", "The end.<|im_end|>", "The padded end.<|endoftext|>",
         "한국어 문장 lantern 0.977"]
CONVERSATIONS = [[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}],
                 [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What about the tensor?"},
                  {"role": "assistant", "content": "It is noisy."}]]


def scores(model, tokenizer, texts, special):
    """In one padded batch, and each by itself."""
    def of(some):
        batch = tokenizer(some, return_tensors="pt", padding=True, add_special_tokens=special)
        with torch.no_grad():
            return model(**batch).logits[:, 0].tolist()

    together, alone = of(texts), [of([text])[0] for text in texts]
    assert max(abs(a - b) for a, b in zip(together, alone)) < 1e-5
    return [float(f"{x:.9g}") for x in alone]


def main(models, file):
    path = os.path.join(models, "qwen2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    transformers.set_seed(42)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(path, num_labels=1, dtype=torch.float32)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.eval()
    rendered = [tokenizer.apply_chat_template(one, tokenize=False) for one in CONVERSATIONS]
    out = {"model": "models/qwen2", "pad_token_id": tokenizer.pad_token_id,
           "plain": {"texts": TEXTS, "scores": scores(model, tokenizer, TEXTS, True)},
           "with_eos": {"texts": TEXTS, "scores": scores(model, tokenizer, [t if t.endswith(tokenizer.eos_token) else t + tokenizer.eos_token for t in TEXTS], True)},
           "conversations": {"texts": [json.dumps(one) for one in CONVERSATIONS], "scores": scores(model, tokenizer, rendered, False)}}
    with open(file, "w") as target:
        json.dump(out, target, indent=1, ensure_ascii=False)
        target.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
