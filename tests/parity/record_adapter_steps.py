#!/usr/bin/env python3
"""Records what PEFT 0.21.2 and transformers 5.23.0 compute with new adapters of small models: the loss of three steps of
gradient descent, the norm of each gradient of the first one, and the names in the file that PEFT saves. The models are
those of tests/golden/families, whose weights a name and a seed give.

usage: record_adapter_steps.py FILE    writes tests/golden/adapters/steps.json.gz
"""

import copy
import json
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", OMP_NUM_THREADS="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
warnings.simplefilter("ignore")

import peft
import safetensors
import safetensors.torch
import torch
import transformers

import weights
from compact import write_gzip

FAMILIES = pathlib.Path(__file__).parent.parent / "golden" / "families"
SEED, STEPS, RATE = 42, 3, 0.05
TIED = {"tie_word_embeddings": True}
APART = {"tie_word_embeddings": False}
QV = dict(target_modules=["q_proj", "v_proj"])
CASES = [
    ("gpt2", {}, dict(target_modules=["c_attn", "c_proj", "c_fc"], bias="all")),
    ("gpt2", {}, dict(target_modules=["c_attn", "c_fc"], use_dora=True)),
    ("gpt2", {}, dict(target_modules=["c_attn", "c_proj"], init_lora_weights="pissa", lora_alpha=6)),
    ("gpt2", {}, dict(target_modules=["c_attn", "wte"])),
    ("gpt2", {}, dict(target_modules=["c_attn"], modules_to_save=["wpe", "ln_f"], lora_bias=True)),
    ("gpt_neox", {}, dict(target_modules=["query_key_value", "dense"], bias="lora_only")),
    ("gpt_neox", {}, dict(target_modules="all-linear", lora_bias=True, use_rslora=True)),
    ("phi3", {}, dict(target_modules=["qkv_proj", "gate_up_proj"], use_rslora=True, rank_pattern={"qkv_proj": 2},
                      alpha_pattern={r"layers\.1\.mlp\..*": 3})),
    ("gemma", {}, dict(target_modules="all-linear", exclude_modules=r".*layers\.0\.mlp.*")),
    ("gemma", {}, dict(**QV, trainable_token_indices=[4, 10, 2])),
    ("gemma", {}, dict(target_modules=["embed_tokens", "o_proj"])),
    ("gemma2", {}, dict(**QV, trainable_token_indices={"embed_tokens": [10], "lm_head": [3, 17]})),
    ("stablelm", {}, dict(target_modules=["q_proj", "down_proj"], bias="all")),
    ("cohere", {}, dict(target_modules="all-linear", bias="lora_only", use_dora=True)),
    ("cohere_head_norms", {}, dict(target_modules=["q_proj", "k_proj", "up_proj"], modules_to_save=["q_norm"])),
    ("glm", {}, dict(target_modules=["q_proj", "k_proj", "gate_up_proj"], init_lora_weights="pissa")),
    ("glm4", {}, dict(target_modules="all-linear", use_rslora=True)),
    ("llama_bias_linear", {}, dict(target_modules="all-linear", bias="lora_only", use_dora=True)),
    ("llama_bias_linear", APART, dict(**QV, trainable_token_indices={"embed_tokens": [10, 17], "lm_head": [3]})),
    ("llama_bias_linear", APART, dict(**QV, trainable_token_indices=[17], modules_to_save=["lm_head"])),
    ("llama_bias_linear", TIED, dict(**QV, trainable_token_indices={"lm_head": [3, 17]})),
    ("llama_bias_linear", TIED, dict(**QV, modules_to_save=["embed_tokens", "lm_head"])),
    ("llama_bias_linear", TIED, dict(**QV, modules_to_save=["lm_head"])),
    ("llama_bias_linear", TIED, dict(**QV, modules_to_save=["embed_tokens"])),
    ("llama_bias_linear", TIED, dict(**QV, modules_to_save=["lm_head"], ensure_weight_tying=True)),
    ("llama_bias_linear", TIED, dict(**QV, modules_to_save=["embed_tokens", "lm_head"], ensure_weight_tying=True)),
    ("llama_bias_linear", TIED, dict(**QV, trainable_token_indices=[3, 17], ensure_weight_tying=True)),
    ("llama_bias_linear", {}, dict(target_modules=["q_proj", "up_proj"], layers_to_transform=[1], layers_pattern="layers")),
    ("llama_bias_linear", {}, dict(target_modules=r".*\.(q|k)_proj|.*layers\.0\..*down_proj", exclude_modules=["k_proj"])),
    ("llama_bias_linear", {}, dict(**QV, init_lora_weights="olora", lora_alpha=8)),
    ("llama_bias_linear", {}, dict(**QV, init_lora_weights="pissa", use_rslora=True)),
    ("llama_bias_linear", {}, dict(**QV, init_lora_weights="pissa", use_dora=True, rank_pattern={"q_proj": 2})),
]


def folder_of(family, changes, folder):
    recorded = json.load(open(FAMILIES / f"{family}.json"))
    config = {**recorded["config"], **changes}
    tensors = {}
    for name, (numbers, shape, center, spread) in recorded["tensors"].items():
        names = [name]
        for places in numbers:
            names = [known.replace("#", str(place), 1) for known in names for place in places]
        for each in names:
            tensors[each] = torch.from_numpy(weights.weight(recorded["seed"], each, shape, center, spread))
    if config.get("tie_word_embeddings") and "lm_head.weight" in tensors:
        del tensors["lm_head.weight"]
    if changes == APART and "lm_head.weight" not in tensors:
        shape = list(tensors["model.embed_tokens.weight"].shape)
        tensors["lm_head.weight"] = torch.from_numpy(weights.weight(recorded["seed"], "lm_head.weight", shape, 0, 0.5))
    json.dump(config, open(folder + "/config.json", "w"))
    safetensors.torch.save_file(tensors, folder + "/model.safetensors", {"format": "pt"})


def name_in_file(name):
    name = name.replace(".modules_to_save.default", "").replace(".default", "")
    return name.removesuffix(".weight") if "lora_magnitude_vector" in name else name


def record(family, changes, config):
    with tempfile.TemporaryDirectory() as folder:
        folder_of(family, changes, folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        torch.manual_seed(SEED)
        full = {"r": 4, "lora_alpha": 4, "init_lora_weights": False, "task_type": "CAUSAL_LM", **copy.deepcopy(config)}
        made = peft.get_peft_model(model, peft.LoraConfig(**full))
        made.eval()
        made.save_pretrained(folder + "/saved")
        with safetensors.safe_open(folder + "/saved/adapter_model.safetensors", "pt") as file:
            names = sorted(file.keys())
    count = model.config.vocab_size
    ids = torch.tensor([[(7 * i + 5 * row + 3) % count for i in range(12)] for row in range(2)])
    losses, norms = [], {}
    for step in range(STEPS):
        made.zero_grad()
        loss = made(input_ids=ids, labels=ids).loss
        loss.backward()
        losses.append(loss.item())
        for name, parameter in made.named_parameters():
            if not parameter.requires_grad:
                continue
            if step == 0:
                norms[name_in_file(name)] = float(f"{parameter.grad.double().norm().item():.7g}")
            parameter.data -= RATE * parameter.grad
    return {"model": family, "changes": changes, "config": {"r": 4, "lora_alpha": 4, "init_lora_weights": False, **config},
            "losses": losses, "norms": norms, "file": names}


def main(path):
    cases = [record(*case) for case in CASES]
    write_gzip(path, json.dumps({"peft": peft.__version__, "seed": SEED, "rate": RATE, "cases": cases}) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
