#!/usr/bin/env python3
"""Records adapters of experts and routers on the small models of ../golden/families with PEFT 0.21.2: the tensors that a file
has, logits' numbers with them and merged, gradients, losses of a few steps, and the values that a new adapter begins with.
Old ones are files as transformers 4 wrote them, which PEFT converts while it loads them.

usage: record_expert_adapters.py FILE    writes tests/golden/adapters/experts.json.gz
"""

import json
import os
import sys
import tempfile
import warnings

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.simplefilter("ignore")

import peft
import safetensors.torch
import torch

import families
import weights
from compact import compact, write, write_gzip

SEED, SPREAD, RATE = 7, 1 / 8, 0.5
CASES = {
    "mixtral_experts": ("mixtral", dict(target_modules=[], target_parameters=["gate_up_proj", "down_proj"], r=4, lora_alpha=6)),
    "mixtral_all": ("mixtral", dict(target_modules="all-linear", r=2, lora_alpha=4)),
    "qwen3_moe_all": ("qwen3_moe", dict(target_modules="all-linear", r=2, lora_alpha=8, use_rslora=True)),
    "qwen3_moe_down": ("qwen3_moe", dict(target_modules=["q_proj"], target_parameters=["experts.down_proj"], r=3)),
    "qwen2_moe_parameters": (
        "qwen2_moe",
        dict(target_modules=["shared_expert_gate", "o_proj"], r=3,
             target_parameters=["gate.weight", "experts.gate_up_proj", "k_proj.weight"]),
    ),
}  # fmt: skip
OLD = {
    "mixtral_old": ("mixtral", dict(target_modules=["w1", "w2", "w3", "gate", "v_proj"], r=3, lora_alpha=6)),
    "mixtral_old_w2": ("mixtral", dict(target_modules=["w2"], r=2)),
    "qwen3_moe_old": ("qwen3_moe", dict(target_modules=["gate_proj", "up_proj", "down_proj"], r=2, lora_alpha=3)),
}


def old_tensors(model, config):
    """Names and shapes of the file that PEFT wrote with transformers 4."""
    c, r, found = model.config, config["r"], {}

    def add(module, rows, columns):
        found[f"base_model.model.{module}.lora_A.weight"] = [r, columns]
        found[f"base_model.model.{module}.lora_B.weight"] = [rows, r]

    width = getattr(c, "moe_intermediate_size", None) or c.intermediate_size
    for name, module in model.named_modules():
        if type(module).__name__.endswith("Experts"):
            owner = name.replace(".mlp.", ".block_sparse_moe.") if c.model_type == "mixtral" else name
            for expert in range(module.num_experts):
                for part in config["target_modules"]:
                    if part in ("w1", "w3", "gate_proj", "up_proj"):
                        add(f"{owner}.{expert}.{part}", width, c.hidden_size)
                    elif part in ("w2", "down_proj"):
                        add(f"{owner}.{expert}.{part}", c.hidden_size, width)
            if "gate" in config["target_modules"]:
                add(owner.replace(".experts", ".gate"), module.num_experts, c.hidden_size)
        elif isinstance(module, torch.nn.Linear) and name.rpartition(".")[2] in config["target_modules"]:
            if ".mlp." not in name:
                add(name, *module.weight.shape)
    return found


def seeded(shapes):
    return {name: torch.from_numpy(weights.weight(SEED, name, shape, 0.0, SPREAD)) for name, shape in shapes.items()}


def directory_of(config, tensors):
    folder = tempfile.TemporaryDirectory()
    with open(folder.name + "/adapter_config.json", "w") as file:
        json.dump(config, file)
    safetensors.torch.save_file(tensors, folder.name + "/adapter_model.safetensors")
    return folder


@torch.no_grad()
def log_probs(model, rows, ids, mask):
    log_p = torch.log_softmax(model(input_ids=ids, attention_mask=mask).logits.double(), -1)
    token = log_p[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    return [compact(token[i, : len(row) - 1]) for i, row in enumerate(rows)]


def plain(name):
    """As in a file."""
    return name.replace(".default", "")


def steps(model, ids, mask, case):
    """Plain descent; gradients of the first step."""
    losses, trained = [], {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    for step in range(4):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        loss.backward()
        losses.append(compact(loss))
        if step == 0:
            gradients = {name: case.fingerprint(name, p.grad.double()) for name, p in trained.items()}
        with torch.no_grad():
            for p in trained.values():
                p -= RATE * p.grad
                p.grad = None
    return {"losses": losses, "gradients": gradients}


def begun(case, config):
    """Sums of the values of a new adapter: they are the same only if every draw before was."""
    torch.manual_seed(SEED)
    model = peft.get_peft_model(case.model(), peft.LoraConfig(task_type="CAUSAL_LM", **config))
    return {plain(n): [float(p.double().sum()), float(p.flatten()[-1])] for n, p in model.named_parameters() if p.requires_grad}


def record(base, config, old):
    with open(f"{os.path.dirname(os.path.abspath(__file__))}/../golden/families/{base}.json") as file:
        case = families.Case(base, json.load(file)["seed"])
    rows, ids, mask = case.batch(case.options["runs"][0], "run 0")
    made = None if old else peft.get_peft_model(case.model(), peft.LoraConfig(task_type="CAUSAL_LM", **config))
    if old:
        shapes = old_tensors(case.model(), config)
        saved = dict(peft_type="LORA", task_type="CAUSAL_LM", **config)
    else:
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            shapes = {k: list(v.shape) for k, v in safetensors.torch.load_file(folder + "/adapter_model.safetensors").items()}
            saved = json.load(open(folder + "/adapter_config.json"))
            saved = {k: sorted(v) if isinstance(v, list) else v for k, v in saved.items() if v not in (None, {}, [], False)}
    saved["base_model_name_or_path"] = "base"
    folder = directory_of(saved, seeded(shapes))
    model = peft.PeftModel.from_pretrained(case.model(), folder.name, is_trainable=True).eval()
    result = {"model": base, "old": old, "given": config, "config": saved, "tensors": shapes}
    result["logprobs"] = log_probs(model, rows, ids, mask)
    result["merged"] = log_probs(peft.PeftModel.from_pretrained(case.model(), folder.name).merge_and_unload().eval(), rows, ids, mask)
    result.update(steps(model, ids, mask, case))
    if not old:
        result["begun"] = begun(case, config)
    return result


def main(path):
    result = {"peft": peft.__version__, "seed": SEED, "spread": SPREAD, "rate": RATE}
    for name, (base, config) in CASES.items():
        result[name] = record(base, dict(config), False)
    for name, (base, config) in OLD.items():
        result[name] = record(base, dict(config), True)
    write_gzip(path, write(result))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
