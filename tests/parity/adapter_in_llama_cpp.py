#!/usr/bin/env python3
"""Makes a random LoRA adapter for MODEL (a directory of the llama, mistral, qwen2 or qwen3 family), converts it with the
command TRL, and compares in llama.cpp the base with the adapter and the base into which the adapter was merged: in this
script, and by the command. TYPE: of the base's file, f32 unless told. In others llama.cpp rounds the inputs of products:
then the two may differ by twice what the base alone differs from its own numbers.

usage: PYTHON adapter_in_llama_cpp.py TRL MODEL [TYPE]    PYTHON has llama-cpp-python 0.3.36
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

import llama_cpp
import numpy

PROMPTS = ["Once upon a time, in a village by the sea,", "The capital of France is", "def fibonacci(n):\n"]
SETTINGS = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 12, "use_rslora": True,
            "rank_pattern": {"v_proj": 4}, "alpha_pattern": {"layers.0.mlp.down_proj": 3}}
TYPES = {"F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16}
QUIET = llama_cpp.llama_log_callback(lambda *_: None)


def read_safetensors(path):
    blob = open(path, "rb").read()
    size = int.from_bytes(blob[:8], "little")
    for name, entry in json.loads(blob[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        values = numpy.frombuffer(blob[begin:end], TYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype(numpy.uint32) << 16).view(numpy.float32)
        yield name, values.astype(numpy.float32).reshape(entry["shape"])


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def make(model, adapter, merged):
    """The adapter's directory, and that of the model into which it was merged."""
    random = numpy.random.default_rng(0)
    weights = dict(read_safetensors(model + "/model.safetensors"))
    factors, modules = {}, []
    for name in sorted(weights):
        if not name.endswith("_proj.weight"):
            continue
        module = name.removesuffix(".weight")
        rank = SETTINGS["rank_pattern"].get(module.rpartition(".")[2], SETTINGS["r"])
        alpha = next((a for end, a in SETTINGS["alpha_pattern"].items() if module.endswith(end)), SETTINGS["lora_alpha"])
        out, into = weights[name].shape
        a = random.standard_normal((rank, into), numpy.float32) / into**0.5
        b = random.standard_normal((out, rank), numpy.float32) / 50
        factors[f"base_model.model.{module}.lora_A.weight"] = a
        factors[f"base_model.model.{module}.lora_B.weight"] = b
        weights[name] = weights[name] + numpy.float32(alpha / rank**0.5) * (b @ a)
        modules.append(module)
    os.mkdir(adapter)
    with open(adapter + "/adapter_config.json", "w") as file:
        json.dump({**SETTINGS, "target_modules": modules, "base_model_name_or_path": model}, file)
    write_safetensors(adapter + "/adapter_model.safetensors", factors)
    shutil.copytree(model, merged, ignore=shutil.ignore_patterns("*.safetensors", "*.gguf"))
    write_safetensors(merged + "/model.safetensors", weights)


class Llama:
    """One GGUF file in llama.cpp, in float32, with an adapter or without."""

    def __init__(self, path, adapter=None):
        options = llama_cpp.llama_model_default_params()
        options.use_extra_bufts = False
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), options)
        if not self.model:
            sys.exit(f"{path}: llama.cpp does not load it")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.adapter = None
        if adapter:
            self.adapter = llama_cpp.llama_adapter_lora_init(self.model, adapter.encode())
            if not self.adapter:
                sys.exit(f"{adapter}: llama.cpp does not load it")

    def logits(self, prompt):
        raw, room = prompt.encode(), len(prompt.encode()) + 16
        tokens = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocabulary, raw, len(raw), tokens, room, True, True)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = 64
        options.type_k = options.type_v = 0
        options.flash_attn_type = 0
        context = llama_cpp.llama_init_from_model(self.model, options)
        if self.adapter:
            chosen = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(self.adapter)
            if llama_cpp.llama_set_adapters_lora(context, chosen, 1, (ctypes.c_float * 1)(1.0)) != 0:
                sys.exit("llama.cpp does not apply the adapter")
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count)) != 0:
            sys.exit("llama_decode failed")
        size = llama_cpp.llama_vocab_n_tokens(self.vocabulary)
        values = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (size,)).copy()
        llama_cpp.llama_free(context)
        return values


def main(trl, model, base_type="f32"):
    def convert(source, target, kind, *more):
        subprocess.run([trl, "convert", "--model_name_or_path", source, "--output", target, "--type", kind, *more], check=True)

    def compare(names, wanted, got, limit):
        worst = 0
        for prompt in PROMPTS:
            want, have, without = (one.logits(prompt) for one in (wanted, got, bare))
            error, effect = abs(have - want).max(), abs(without - want).max()
            print(f"{names}, {prompt!r}: logits differ by {error:.2e}, without the adapter by {effect:.2e}")
            worst = max(worst, error / limit(effect))
        return worst < 1

    with tempfile.TemporaryDirectory() as folder:
        adapter, merged = folder + "/adapter", folder + "/merged"
        make(model, adapter, merged)
        convert(model, folder + "/base.gguf", base_type)
        convert(merged, folder + "/merged.gguf", "f32")
        merging = ["--dtype", "keep", "--adapter_name_or_path", adapter, "--save.kind", "merged"]
        convert(folder + "/base.gguf", folder + "/ours", "auto", *merging)
        convert(folder + "/ours", folder + "/ours.gguf", "f32")
        convert(folder + "/base.gguf", folder + "/numbers", "auto")
        convert(folder + "/numbers", folder + "/numbers.gguf", "f32")
        convert(adapter, folder + "/adapter.gguf", "auto")
        llama_cpp.llama_backend_init()
        llama_cpp.llama_log_set(QUIET, None)
        bare = Llama(folder + "/base.gguf")
        adapted = Llama(folder + "/base.gguf", folder + "/adapter.gguf")
        ours = Llama(folder + "/ours.gguf")
        if base_type == "f32":
            good = compare("merged here", Llama(folder + "/merged.gguf"), adapted, lambda effect: 1e-3 * effect)
            good &= compare("merged by trl", ours, adapted, lambda effect: 1e-3 * effect)
        else:
            numbers = Llama(folder + "/numbers.gguf")
            own = max(abs(bare.logits(prompt) - numbers.logits(prompt)).max() for prompt in PROMPTS)
            print(f"the base alone: logits differ from those of its numbers by {own:.2e}")
            good = compare("merged by trl", ours, adapted, lambda _: 2 * own)
        sys.exit(not good)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
