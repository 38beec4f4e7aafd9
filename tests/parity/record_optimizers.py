#!/usr/bin/env python3
"""Records what bitsandbytes 0.50.2's optimizers make of a matrix on the CPU, and TRL 1.16.0 of a tiny model with them.

usage: record_optimizers.py MODELS DATASETS FILE    writes tests/golden/optim/bitsandbytes8.json.gz; MODELS and DATASETS are
tests/golden/models and tests/golden/data/datasets
"""

import json
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import bitsandbytes
import datasets
import torch
import transformers
import trl

from compact import write_gzip

ROWS, COLUMNS, STEPS = 65, 67, 5
COMMON = {"lr": 1e-2, "weight_decay": 0.1}
ADAM = {**COMMON, "betas": (0.9, 0.999), "eps": 1e-8}
MIX = {**COMMON, "betas": (0.9, 0.999, 0.9999), "alpha": 5.0, "eps": 1e-8, "t_alpha": 4, "t_beta3": 7}
RMSPROP = {**COMMON, "alpha": 0.95, "eps": 1e-8}
CODED = [
    ("adamw_8bit", bitsandbytes.optim.AdamW8bit, ADAM),
    ("lion_8bit", bitsandbytes.optim.Lion8bit, {**COMMON, "betas": (0.9, 0.99)}),
    ("rmsprop_bnb_8bit", bitsandbytes.optim.RMSprop8bit, RMSPROP),
    ("ademamix_8bit", bitsandbytes.optim.AdEMAMix8bit, MIX),
]
WIDE = [
    ("ademamix", bitsandbytes.optim.AdEMAMix, MIX),
    ("ademamix", bitsandbytes.optim.AdEMAMix, {**COMMON, "betas": (0.8, 0.99, 0.999), "alpha": 3.0, "eps": 1e-6}),
    ("rmsprop_bnb", bitsandbytes.optim.RMSprop32bit, RMSPROP),
]
RUNS = {
    "adamw_8bit": {"learning_rate": 2e-3, "weight_decay": 0.01},
    "lion_8bit": {"learning_rate": 5e-4, "weight_decay": 0.01},
    "rmsprop_bnb_8bit": {"learning_rate": 2e-4},
    "ademamix_8bit": {"learning_rate": 1e-3, "optim_args": "alpha=3,t_alpha=6,t_beta3=6"},
    "paged_ademamix_32bit": {"learning_rate": 1e-3, "weight_decay": 0.01},
}


def numbers(count, seed):
    """Exact in float32, of eight magnitudes."""
    out = []
    for i in range(count):
        h = (i * 2654435761 + seed * 40503 + 12345) % 2**32
        h ^= h >> 15
        h = h * 2246822519 % 2**32
        h ^= h >> 13
        out.append(((h >> 8) / 2**24 - 0.5) * 2.0 ** -(h & 7))
    return torch.tensor(out, dtype=torch.float32)


def short(values):
    return [float(f"{v:.9g}") for v in values.flatten().tolist()]


def steps(name, kind, settings, count, sample):
    weight = torch.nn.Parameter(numbers(count, 0).clone())
    optimizer = kind([weight], **settings)
    after = []
    for step in range(STEPS):
        weight.grad = numbers(count, step + 1)
        optimizer.step()
        after.append(short(weight.data[sample]))
    case = {"optim": name, "config": settings, "params_after_step": after}
    state = optimizer.state[weight]
    if state["state1"].dtype != torch.uint8:
        return case
    case["codes"], case["absmax"] = [], []
    for i in (1, 2):
        if f"state{i}" in state:
            case["codes"] += [codes[sample].tolist() for codes in state[f"state{i}"].reshape(-1, count)]
            scales = state[f"absmax{i}"]
            case["absmax"] += [short(row) for row in scales.reshape(-1, scales.shape[-1])]
    return case


def run(model, rows, optim, settings):
    with tempfile.TemporaryDirectory() as folder:
        args = trl.SFTConfig(folder, bf16=False, use_cpu=True, gradient_checkpointing=False, logging_steps=1, report_to=[], save_strategy="no",
                             train_sampling_strategy="sequential", seed=42, per_device_train_batch_size=4, max_steps=8, optim=optim, **settings)
        trainer = trl.SFTTrainer(transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), args,
                                 train_dataset=datasets.load_dataset("json", data_files=rows, split="train"),
                                 processing_class=transformers.AutoTokenizer.from_pretrained(model))
        trainer.train()
    records = [{key: short(torch.tensor(record[key]))[0] for key in ("loss", "grad_norm")} for record in trainer.state.log_history[:-1]]
    weights = {name: {"norm": short(w.detach().double().norm().float())[0], "some": short(w.detach().flatten()[::997])}
               for name, w in trainer.model.named_parameters()}
    return {"args": settings, "log_history": records, "weights": weights}


def main():
    models, rows, path = sys.argv[1], os.path.join(sys.argv[2], "train_lm.jsonl"), sys.argv[3]
    count = ROWS * COLUMNS
    sample = sorted(set(range(0, count, 37)) | set(range(count - 5, count)))
    cases = [steps(*case, count, sample) for case in CODED] + [steps(*case, 40, list(range(40))) for case in WIDE]
    runs = {optim: run(os.path.join(models, "qwen2"), rows, optim, settings) for optim, settings in RUNS.items()}
    recorded = {"bitsandbytes": bitsandbytes.__version__, "rows": ROWS, "columns": COLUMNS, "sample": sample, "cases": cases, "runs": runs}
    write_gzip(path, json.dumps(recorded, separators=(",", ":")))


if __name__ == "__main__":
    main()
