# usage: PYTHON gguf_in_llama_cpp.py TRL MODEL... [--rows FILE] [--steps N] [--tokens N] [--types f32,q8_0]
# Trains each MODEL (a directory, a GGUF file, or a family of tiny_models.py with random weights; `families` are
# all of those) with the command TRL for a few steps, saves it with save_format gguf, and lets both `trl generate`
# and llama.cpp complete a few prompts greedily: exit status 1 unless their texts are the same. PYTHON has
# llama-cpp-python 0.3.36. Of block types the first tokens are only counted: there llama.cpp rounds the
# activations too.
import argparse
import ctypes
import os
import subprocess
import sys
import tempfile

import llama_cpp

import tiny_models

PROMPTS = ["Once upon a time, in a village by the sea,", "The capital of France is", "def fibonacci(n):\n",
           "In 1969, 3 men went to the moon \u2014 "]

QUIET = llama_cpp.llama_log_callback(lambda *_: None)


class Llama:
    """One GGUF file in llama.cpp, in float32 as far as it goes."""

    def __init__(self, path):
        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(QUIET, None)
        options = llama_cpp.llama_model_default_params()
        options.use_extra_bufts = False  # weights as they are in the file, for every processor
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), options)
        if not self.model:
            sys.exit(f"{path}: llama.cpp does not load it")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)

    def ids(self, text):
        raw, room = text.encode(), len(text.encode()) + 16
        tokens = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocabulary, raw, len(raw), tokens, room, True, True)
        return list(tokens[:count])

    def text(self, ids):
        out = b""
        for token in ids:
            piece = ctypes.create_string_buffer(256)
            size = llama_cpp.llama_token_to_piece(self.vocabulary, token, piece, 256, 0, False)
            out += piece.raw[:size]
        return out.decode(errors="replace")

    def complete(self, prompt, count):
        batch = self.ids(prompt)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = len(batch) + count + 8
        options.type_k = options.type_v = 0  # float32 keys and values
        options.flash_attn_type = 0
        context = llama_cpp.llama_init_from_model(self.model, options)
        sampler = llama_cpp.llama_sampler_init_greedy()
        ids = []
        while len(ids) < count:
            tokens = (llama_cpp.llama_token * len(batch))(*batch)
            if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(batch))) != 0:
                sys.exit("llama_decode failed")
            batch = [llama_cpp.llama_sampler_sample(sampler, context, -1)]
            if llama_cpp.llama_vocab_is_eog(self.vocabulary, batch[0]):
                break
            ids += batch
        llama_cpp.llama_free(context)
        return self.text(ids)


def same_start(a, b):
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same


def trained(given, model, rows, kind, out):
    """The file of a model that was trained for a few steps."""
    done = subprocess.run([given.trl, "sft", "--model_name_or_path", model, "--dataset_name", rows,
                           "--output_dir", out, "--max_steps", str(given.steps), "--save_strategy", "no",
                           "--report_to", "none", "--max_length", str(given.length), "--save_format", "gguf",
                           "--per_device_train_batch_size", "2", "--save_gguf_type", kind],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{model}: {done.stderr}")
    return os.path.join(out, "model.gguf")


def same_texts(given, path, title):
    """Whether both complete every prompt with the same text; prints where they part."""
    llama = Llama(path)
    same = True
    for prompt in PROMPTS:
        ours = subprocess.run([given.trl, "generate", "--model_name_or_path", path, "--prompt", prompt,
                               "--max_new_tokens", str(given.tokens)], check=True,
                              capture_output=True).stdout.removesuffix(b"\n").decode(errors="replace")
        theirs = llama.complete(prompt, given.tokens)
        equal = ours == theirs
        same &= equal
        print(f"{title}: {prompt!r}: " + (f"the same {len(ours)} characters" if equal else
              f"{same_start(ours, theirs)} of {len(ours)} characters are the same"))
        if not equal:
            print(f"  trl:       {ours!r}\n  llama.cpp: {theirs!r}")
    return same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trl")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--rows", default=os.path.join(os.path.dirname(__file__),
                                                        "../../examples/data/port_merrow.jsonl"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--types", default="f32,q8_0")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        models = list(tiny_models.CASES) if given.model == ["families"] else given.model
        for number, model in enumerate(models):
            path, rows = model, given.rows
            if model in tiny_models.CASES:
                path = os.path.join(folder, f"tiny{number}")  # llama.cpp wants Phi-3's tokens in what is called phi3
                rows = tiny_models.build(model, path)
            for kind in given.types.split(","):
                file = trained(given, path, rows, kind, os.path.join(folder, f"{number}.{kind}"))
                failed |= not same_texts(given, file, f"{model} {kind}") and kind == "f32"
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
