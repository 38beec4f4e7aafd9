#!/usr/bin/env python3
"""Records what PEFT 0.21.2 makes of LoraConfigs on tiny models of transformers 5.23.0: the modules of each model, and for
each case the modules that get an adapter, with their rank, alpha and scaling, or that PEFT refuses it.

usage: record_adapters.py FOLDER    writes tests/golden/adapters/selections.json, and files.json: what PEFT saves
"""

import copy
import json
import os
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.simplefilter("ignore")

import peft
import safetensors
import torch
import transformers
from peft.tuners.lora import LoraLayer
from transformers.pytorch_utils import Conv1D

SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
             head_dim=16, vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_experts=3, num_local_experts=3, num_experts_per_tok=1, moe_intermediate_size=24,
               shared_expert_intermediate_size=40)
FAMILIES = {
    **{name: SIZES for name in ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text", "granite",
                                "smollm3", "olmo2", "stablelm", "gpt_neox")},
    **{name: {**SIZES, **EXPERTS} for name in ("mixtral", "qwen2_moe", "qwen3_moe")},
    "gpt2": dict(n_embd=32, n_layer=2, n_head=2, n_positions=16, vocab_size=64, bos_token_id=1, eos_token_id=2),
}
CASES = [
    *[(name, dict(target_modules="all-linear")) for name in FAMILIES],
    *[(name, dict()) for name in FAMILIES],
    ("llama", dict(target_modules=["q_proj", "v_proj"])),
    ("llama", dict(target_modules=["proj"])),
    ("llama", dict(target_modules=["self_attn.q_proj", "model.layers.1.mlp.up_proj"])),
    ("llama", dict(target_modules="ALL-Linear", r=16, lora_alpha=32, use_rslora=True)),
    ("llama", dict(target_modules=r".*\.layers\.0\.(self_attn\.(q|k)_proj|mlp\.down_proj)")),
    ("llama", dict(target_modules=r"layers\.0\..*q_proj")),
    ("llama", dict(target_modules=r"(?i).*\.Q_PROJ")),
    ("llama", dict(target_modules=r".*(?<!down)_proj")),
    ("llama", dict(target_modules="q_proj|.*v_proj")),
    ("llama", dict(target_modules="all-linear", exclude_modules=["down_proj", "model.layers.0.self_attn.q_proj"])),
    ("llama", dict(target_modules="all-linear", exclude_modules=r".*layers\.1.*")),
    ("llama", dict(target_modules=["q_proj"], exclude_modules=["q_proj"])),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[1])),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=0)),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern="layers")),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern=["h", "model.layers"])),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern=["h"])),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[])),
    ("llama", dict(target_modules="all-linear", layers_to_transform=[0])),
    ("llama", dict(target_modules=["q_proj"], layers_pattern="layers")),
    ("llama", dict(target_modules=["q_proj", "v_proj", "down_proj"], rank_pattern={"q_proj": 2, r"layers\.1\.mlp\..*": 3},
                   alpha_pattern={"down_proj": 32, "^model.layers.0.self_attn.v_proj": 5})),
    ("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={"proj": 2}, alpha_pattern={"q_proj|v_proj": 3})),
    ("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={"q_proj": 2, ".*proj": 3}, use_rslora=True)),
    ("llama", dict(target_modules=["k_proj"], modules_to_save=["lm_head"])),
    ("llama", dict(target_modules="all-linear", modules_to_save=["mlp"])),
    ("llama", dict(target_modules="all-linear", modules_to_save=["norm"])),
    ("llama", dict(target_modules=["q_proj", "embed_tokens"])),
    ("llama", dict(target_modules=["nothing"])),
    ("llama", dict(target_modules=["self_attn"])),
    ("llama", dict(target_modules=["input_layernorm"])),
    ("llama", dict(target_modules="(")),
    ("llama", dict(target_modules="q_proj")),
    ("llama", dict(target_modules="")),
    ("llama", dict(target_modules=[])),
    ("llama", dict(target_modules=["q_proj", "v_proj"], exclude_modules="q_proj")),
    ("llama", dict(target_modules=["q_proj", "v_proj"], exclude_modules=["layers.0.self_attn.q_proj"])),
    ("llama", dict(target_modules=r".*\.(q|v)_proj", exclude_modules=["v_proj"])),
    ("llama", dict(target_modules=["q_proj", "v_proj"], modules_to_save=["q_proj"])),
    ("llama", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])),
    ("llama", dict(target_modules=["q_proj"], modules_to_save=["model.norm"])),
    ("llama", dict(target_modules=["q_proj"], modules_to_save=["layers.1.mlp"])),
    ("llama", dict(target_modules=["q_proj", "mlp.up_proj"], layers_to_transform=[1, 0], layers_pattern=["layers"])),
    ("llama", dict(target_modules=["model.layers.1.self_attn.q_proj"], layers_to_transform=[0])),
    ("llama", dict(target_modules=["embed_tokens", "q_proj"], layers_to_transform=[1])),
    ("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={r".*\.0\..*v_proj": 3, "v_proj": 2}, use_rslora=True,
                   alpha_pattern={r"layers\.1\.self_attn\.q_proj": 5})),
    ("llama", dict(target_modules=["q_proj"], rank_pattern={"q_pro": 2, "model.layers.0": 3})),
    ("gpt2", dict(target_modules=["c_attn"], layers_to_transform=[1], layers_pattern="h")),
    ("gpt_neox", dict(target_modules=["dense"], bias="lora_only", layers_to_transform=[0])),
    ("phi3", dict(target_modules="all-linear", rank_pattern={"qkv_proj": 2}, bias="all")),
    ("gemma", dict(target_modules=["embed_tokens", "q_proj"], rank_pattern={"embed_tokens": 2})),
    ("llama", dict(target_modules=["q_proj"], r=0)),
    ("llama", dict(target_modules=["q_proj"], lora_bias=True, use_dora=True)),
    ("llama", dict(target_modules=["q_proj"], lora_bias=True, init_lora_weights="gaussian")),
    ("qwen2", dict(target_modules=["q_proj"], bias="all")),
    ("qwen2", dict(target_modules=["q_proj", "o_proj"], bias="lora_only")),
    ("gpt2", dict(target_modules=["c_attn", "c_proj"], bias="all")),
    ("gpt2", dict(target_modules=["c_fc"], layers_to_transform=[1])),
    ("gpt2", dict(target_modules=["wte"])),
    ("gemma2", dict(target_modules="all-linear", exclude_modules=["down_proj"])),
    ("phi3", dict(target_modules=["qkv_proj", "gate_up_proj"])),
    ("qwen2_moe", dict(target_modules=["gate_proj", "shared_expert_gate"])),
    ("qwen2_moe", dict(target_modules=["gate"])),
    ("qwen3_moe", dict(target_modules=["q_proj"], target_parameters=["mlp.experts.down_proj"])),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj", "experts.gate_up_proj"], r=2)),
    ("qwen3_moe", dict(target_parameters=["mlp.experts.down_proj"])),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj"], lora_dropout=0.1)),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj"], use_dora=True)),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj"], lora_bias=True)),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj"], fan_in_fan_out=True)),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj"], init_lora_weights="pissa")),
    ("qwen3_moe", dict(target_modules="all-linear", lora_dropout=0.1)),
    ("qwen3_moe", dict(target_modules="all-linear", r=4, use_rslora=True)),
    ("qwen3_moe", dict(target_modules=["q_proj", "gate_proj", "up_proj"], r=4, lora_alpha=6)),
    ("qwen3_moe", dict(target_modules=["q_proj", "gate_proj"])),
    ("qwen3_moe", dict(target_modules=["gate"])),
    ("qwen3_moe", dict(target_modules=["mlp.gate", "down_proj"], rank_pattern={".*gate.weight": 2, "down_proj": 3})),
    ("qwen3_moe", dict(target_modules=r".*layers\.1\..*(q_proj|experts\.(gate|up)_proj)")),
    ("qwen3_moe", dict(target_modules=r".*self_attn\..*", exclude_modules=["k_proj"])),
    ("qwen3_moe", dict(target_modules="nothing.*")),
    ("qwen3_moe", dict(target_modules=["q_proj"], target_parameters=["q_proj.weight"])),
    ("qwen3_moe", dict(target_modules=["q_proj"], target_parameters=["k_proj.weight", "gate.weight"])),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["norm.weight"])),
    ("mixtral", dict(target_modules=["w1", "w2", "w3"], r=4, alpha_pattern={"experts.gate_up_proj": 5})),
    ("mixtral", dict(target_modules=["w1", "w2"])),
    ("mixtral", dict(target_modules=["experts.0.w2", "q_proj"])),
    ("mixtral", dict(target_modules=r".*experts.*\.w[123]")),
    ("mixtral", dict(target_modules=r".*layers\.0.*\.w2")),
    ("mixtral", dict(target_parameters=["down_proj"])),
    ("llama", dict(target_modules=[], target_parameters=["q_proj.weight", "mlp.up_proj.weight"], r=2)),
    ("llama", dict(target_parameters=["o_proj.weight"])),
    ("qwen2 SEQ_CLS", dict(target_modules="all-linear", task_type="SEQ_CLS")),
    ("gpt2 SEQ_CLS", dict(target_modules=["c_attn"], task_type="SEQ_CLS", modules_to_save=["wpe"])),
]


# What PEFT saves is recorded of these.
FILES = [
    ("llama", dict(target_modules=["q_proj", "v_proj"], lora_dropout=0.05)),
    ("llama", dict(target_modules="all-linear", use_rslora=True)),
    ("llama3layers", dict(target_modules="all-linear", exclude_modules=["down_proj"])),
    ("llama", dict(target_modules=r".*layers\.0\.self_attn\.[qk]_proj", use_dora=True, init_lora_weights="gaussian")),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[1], layers_pattern=["layers"])),
    ("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={"q_proj": 2}, alpha_pattern={"v_proj": 3},
                   modules_to_save=["lm_head", "norm"])),
    ("llama", dict()),
    ("llama", dict(target_modules=["q_proj", "embed_tokens"])),
    ("llama", dict(target_modules=["q_proj"], trainable_token_indices=[3, 5])),
    ("llama", dict(target_modules=["q_proj"], trainable_token_indices={"embed_tokens": [3, 5, 9]})),
    ("qwen2", dict(target_modules=["q_proj"], bias="all")),
    ("qwen2", dict(target_modules=["q_proj", "o_proj"], bias="lora_only", lora_bias=True)),
    ("qwen2 SEQ_CLS", dict(target_modules=["v_proj"], task_type="SEQ_CLS")),
    ("gpt2", dict(target_modules=["c_attn", "c_proj"], modules_to_save=["wpe", "ln_f"])),
    ("gpt2", dict(target_modules=["c_attn"], use_dora=True)),
    ("phi3", dict(target_modules=["qkv_proj", "gate_up_proj"])),
    ("qwen3_moe", dict(target_modules=["q_proj"], target_parameters=["mlp.experts.down_proj"])),
    ("qwen3_moe", dict(target_modules=[], target_parameters=["down_proj", "experts.gate_up_proj"], r=2)),
    ("qwen3_moe", dict(target_modules=["q_proj", "gate_proj", "up_proj", "gate"], r=2)),
    ("mixtral", dict(target_modules="all-linear", r=2)),
    ("llama", dict(target_modules=["q_proj"], target_parameters=["k_proj.weight"], r=2)),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=0)),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=1, layers_pattern="layers")),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern="")),
    ("llama", dict(target_modules=["q_proj"], layers_to_transform=[], layers_pattern="layers", exclude_modules=[], target_parameters=[],
                   modules_to_save=[], trainable_token_indices={}, layer_replication=[], alora_invocation_tokens=[])),
    ("qwen2 SEQ_CLS", dict(target_modules=["v_proj"], task_type="SEQ_CLS", modules_to_save=[])),
]


def model_of(name):
    kind, *classifier = name.split()
    layers = dict(num_hidden_layers=3) if kind == "llama3layers" else {}
    kind = kind.removesuffix("3layers")
    config = transformers.AutoConfig.for_model(kind, **{**FAMILIES[kind], **layers})
    config.pad_token_id = 0
    auto = transformers.AutoModelForSequenceClassification if classifier else transformers.AutoModelForCausalLM
    return auto.from_config(config)


def modules_of(model):
    """name, kind, in, out, bias, head, experts"""
    rows = []
    head = model.get_output_embeddings() or getattr(model, "score", None)
    for name, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if not own:
            continue
        bias = "bias" in own
        if isinstance(module, (torch.nn.Linear, Conv1D)):
            conv = isinstance(module, Conv1D)
            shape = module.weight.shape if conv else module.weight.shape[::-1]
            rows.append([name, "conv1d" if conv else "linear", *shape, bias, module is head, 0])
        elif isinstance(module, torch.nn.Embedding):
            rows.append([name, "embedding", *module.weight.shape, False, False, 0])
        elif "gate_up_proj" in own:
            for part, weight in own.items():
                rows.append([f"{name}.{part}", "experts", weight.shape[2], weight.shape[1], False, False, weight.shape[0]])
        elif "Router" in type(module).__name__:
            rows.append([name, "router", *module.weight.shape[::-1], False, False, 0])
        else:
            rows.append([name, "other", 0, 0, bias, False, 0])
    return rows


def result_of(name, config):
    model = model_of(name)
    try:
        made = peft.get_peft_model(model, peft.LoraConfig(**{"task_type": "CAUSAL_LM", **copy.deepcopy(config)}))
    except Exception as error:
        return {"error": type(error).__name__}
    targets = []
    for key, module in made.base_model.model.named_modules():
        if not isinstance(module, LoraLayer):
            continue
        key = key.replace(".base_layer", "")
        if hasattr(module, "parameter_name"):
            key += "." + module.parameter_name
        targets.append([key, module.r["default"], module.lora_alpha["default"], module.scaling["default"]])
    trained = {key.removeprefix("base_model.model.") for key, value in made.named_parameters() if value.requires_grad}
    saved = sorted({key.split(".modules_to_save.")[0] + key.split(".default")[1].rpartition(".")[0]
                    for key in trained if ".modules_to_save." in key})
    biases = sorted({key.replace(".base_layer", "").rpartition(".")[0] for key in trained
                     if key.endswith(".bias") and "modules_to_save" not in key and "lora_" not in key})
    return {"targets": targets, "saved": saved, "biases": biases}


def file_of(name, config):
    model = model_of(name)
    model.name_or_path = "base"
    made = peft.get_peft_model(model, peft.LoraConfig(**{"task_type": "CAUSAL_LM", **copy.deepcopy(config)}))
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        saved = json.load(open(folder + "/adapter_config.json"))
        with safetensors.safe_open(folder + "/adapter_model.safetensors", "pt") as file:
            shapes = {key: list(file.get_slice(key).get_shape()) for key in sorted(file.keys())}
    for key, value in saved.items():
        if isinstance(value, list) and key in ("target_modules", "exclude_modules", "target_parameters"):
            saved[key] = sorted(value)  # sets
    return {"saved": saved, "tensors": shapes}


def main(folder):
    names = sorted({name for name, _ in CASES + FILES})
    lines = ['{"peft": "%s", "transformers": "%s",' % (peft.__version__, transformers.__version__), '"models": {']
    models = []
    for name in names:
        model = model_of(name)
        models.append(json.dumps(name) + ": " + json.dumps([model.config.model_type, modules_of(model)]))
    cases = [json.dumps({"model": name, "config": config, **result_of(name, config)}) for name, config in CASES]
    with open(folder + "/selections.json", "w") as file:
        file.write("\n".join([*lines, ",\n".join(models), "},", '"cases": [', ",\n".join(cases), "]}"]) + "\n")
    files = [json.dumps({"model": name, "config": config, **file_of(name, config)}) for name, config in FILES]
    with open(folder + "/files.json", "w") as file:
        file.write("[\n" + ",\n".join(files) + "]\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
