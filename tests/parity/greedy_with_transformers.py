# usage: PYTHON greedy_with_transformers.py TRL MODEL [--tokens N] [--prompts N]
# Lets transformers complete some prompts greedily, one by one, and `trl generate` complete them in one call, both in
# float32: exit status 1 unless their texts are the same. PYTHON has transformers 5.23.0; MODEL is a directory with
# a tokenizer.
import argparse
import json
import subprocess
import sys
import tempfile

import torch
import transformers

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "In 1969, 3 men went to the moon \u2014 ",
    "Water boils at",
    "The three primary colours are",
    "Dear Sir or Madam,\n\nI am writing to",
    "Q: What is 17 + 25?\nA:",
    "A recipe for pancakes:\n\n1.",
    "#include <stdio.h>\n\nint main(void) {\n",
    "The quick brown fox",
    "To be, or not to be,",
    "Photosynthesis is the process by which",
    "SELECT name, age FROM users WHERE",
    "My favourite season is autumn, because",
    "{\"name\": \"Ada\", \"born\": ",
    "The French word for \u2018cat\u2019 is",
    "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals, when it was checked by "
    "a violent gust of wind which swept up the streets (for it is in London that our scene lies), rattling along the "
    "house-tops, and fiercely agitating the scanty flame of the lamps that struggled against the darkness.",
    "List of planets: Mercury, Venus, Earth, Mars,",
    "Hello",
]


def by_transformers(given, prompts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            out = model.generate(**ids, max_new_tokens=given.tokens, do_sample=False)
        yield tokenizer.decode(out[0, ids["input_ids"].shape[1]:], skip_special_tokens=True,
                               clean_up_tokenization_spaces=False)


def by_trl(given, prompts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for prompt in prompts:
            file.write(json.dumps({"prompt": prompt}) + "\n")
        file.flush()
        done = subprocess.run([given.trl, "generate", "--model_name_or_path", given.model, "--prompts", file.name,
                               "--json", "--dtype", "float32", "--max_new_tokens", str(given.tokens)],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line)["completion"] for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trl")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    given = parser.parse_args()
    prompts = PROMPTS[:given.prompts]
    same = 0
    ours = by_trl(given, prompts)
    for prompt, mine, theirs in zip(prompts, ours, by_transformers(given, prompts), strict=True):
        same += mine == theirs
        if mine != theirs:
            print(f"{prompt!r}:\n  trl:          {mine!r}\n  transformers: {theirs!r}", flush=True)
    print(f"{same} of {len(prompts)} texts are the same")
    sys.exit(0 if same == len(prompts) else 1)


if __name__ == "__main__":
    main()
