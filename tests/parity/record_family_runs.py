#!/usr/bin/env python3
"""Records runs of TRL 1.16.0's SFTTrainer on models of tests/golden/families, with the tokenizer of tests/golden/models/qwen2
and as many tokens as it has: what is logged, and fingerprints of the weights at the end.

usage: record_family_runs.py FILE    writes tests/golden/trajectories/families.json.gz
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", OMP_NUM_THREADS="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
warnings.simplefilter("ignore")

import datasets
import torch
import trl

import weights
from compact import write_gzip
from record_preferences import records, rows_between, trained
from tiny_models import numbered, write_safetensors

DATA = pathlib.Path(__file__).parent.parent / "golden"
CASES = ["cohere", "cohere_head_norms", "glm4"]
ARGS = {"train_sampling_strategy": "sequential", "seed": 42, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "max_steps": 6, "max_length": 40, "learning_rate": 0.002, "weight_decay": 0.1}


def write_model(name, folder):
    case = json.load(open(DATA / "families" / f"{name}.json"))
    rows = json.load(open(DATA / "models/qwen2/config.json"))["vocab_size"]
    before, case["config"]["vocab_size"] = case["config"]["vocab_size"], rows
    arrays = {}
    for template, (places, shape, center, spread) in case["tensors"].items():
        shape = [rows if shape[0] == before else shape[0], *shape[1:]]
        for each in numbered(template, places):
            arrays[each] = weights.weight(case["seed"], each, shape, center, spread)
    write_safetensors(f"{folder}/model.safetensors", arrays)
    json.dump(case["config"], open(f"{folder}/config.json", "w"))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DATA / "models/qwen2" / file, folder)


def run(name):
    with tempfile.TemporaryDirectory() as folder:
        write_model(name, folder)
        config = trl.SFTConfig(f"{folder}/out", use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], logging_steps=1,
                               save_strategy="no", **ARGS)
        data = datasets.load_dataset("json", data_files=str(DATA / "data/datasets/train_lm.jsonl"), split="train")
        torch.manual_seed(ARGS["seed"])
        trainer = trl.SFTTrainer(folder, args=config, train_dataset=rows_between(data, (0, 63)))
        trainer.train()
    return {"name": name, "args": ARGS, "optim": str(config.optim.value), "lr_scheduler_type": str(config.lr_scheduler_type.value),
            "relative_tolerance": 1e-3, "log_history": records(trainer), "final_weights": trained(trainer.model)}


def main(path):
    torch.set_num_threads(1)
    write_gzip(path, json.dumps({"trl": trl.__version__, "runs": [run(name) for name in CASES]}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
