#!/usr/bin/env python3
"""Records what TRL 1.16.0 makes of language models that become reward models: the head that transformers 5.23.0 gives
them, runs, and what is saved.

usage: record_reward.py MODELS DATASETS FILE    writes tests/golden/reward/created.json.gz; MODELS and DATASETS are
tests/golden/models and tests/golden/data/datasets
"""

import json
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import datasets
import peft
import torch
import trl

from compact import write_gzip

torch.set_num_threads(1)
QV = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "SEQ_CLS"}
CASES = {
    "plain": {"model": "qwen2", "dataset": "train_pref.jsonl"},
    "lora": {"model": "qwen2", "dataset": "train_pref.jsonl", "lora": QV, "args": {"learning_rate": 0.01}},
    # The end of a text is padding too: the score is that of the token before it. (With a learning rate of 2e-3, two
    # attentions of TRL itself are 1e-4 apart.)
    "pad_is_eos": {"model": "llama3", "dataset": "train_margin.jsonl", "args": {"pad_token": "<|eot_id|>", "seed": 7, "learning_rate": 2e-4}},
    "autocast": {"model": "qwen2", "dataset": "train_pref.jsonl", "args": {"bf16": True}},
    "bfloat16": {"model": "qwen2_bf16", "dataset": "train_pref.jsonl", "args": {"bf16": True, "model_init_kwargs": {"dtype": "bfloat16"}}},
    "new_tokens": {"model": "qwen2", "dataset": "train_pref_chat.jsonl", "args": {"chat_template_path": "llama3"}, "lora": QV},
}


def digits(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().float().flatten().tolist()]


def score(model):
    for name, parameter in model.named_parameters():
        if name.endswith(("score.weight", "score.modules_to_save.default.weight")):
            return digits(parameter)


def first_values(model):
    """The beginning of each factor A, and the last row of the embedding."""
    named = dict(model.named_parameters())
    out = {name.replace(".default", ""): digits(p[0, :4]) for name, p in named.items() if "lora_A" in name}
    table = [p for name, p in named.items() if "embed_tokens" in name and p.dim() == 2 and p.shape[0] > 100]
    return {"factors": out, "last_row": digits(table[0][-1])}


def case(models, rows, about):
    args = {"learning_rate": 0.002, "seed": 42, "bf16": False, **about.get("args", {})}
    given = dict(args)
    if "chat_template_path" in given:
        given["chat_template_path"] = os.path.join(models, given["chat_template_path"])
    with tempfile.TemporaryDirectory() as folder:
        config = trl.RewardConfig(folder, use_cpu=True, gradient_checkpointing=False, logging_steps=1, report_to=[], save_strategy="no",
                                  train_sampling_strategy="sequential", per_device_train_batch_size=4, max_steps=6, **given)
        data = datasets.load_dataset("json", data_files=os.path.join(rows, about["dataset"]), split="train")
        trainer = trl.RewardTrainer(os.path.join(models, about["model"]), config, train_dataset=data,
                                    peft_config=peft.LoraConfig(**about["lora"]) if "lora" in about else None)
        out = {**about, "args": args, "head": score(trainer.model), "begin": first_values(trainer.model)}
        trainer.train()
        drop = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos")
        out["records"] = [{k: v for k, v in record.items() if k not in drop} for record in trainer.state.log_history]
        out["final_head"] = score(trainer.model)
        trainer.save_model(folder)
        from safetensors import safe_open
        name = "adapter_model.safetensors" if "lora" in about else "model.safetensors"
        with safe_open(os.path.join(folder, name), "pt") as file:
            out["tensors"] = {key: list(file.get_slice(key).get_shape()) for key in file.keys()}
        own = "adapter_config.json" if "lora" in about else "config.json"
        out["saved"] = json.load(open(os.path.join(folder, own), encoding="utf-8"))
        out["files"] = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    return out


def main():
    models, rows, file = sys.argv[1:]
    cases = {name: case(models, rows, about) for name, about in CASES.items()}
    text = json.dumps(cases, sort_keys=True, separators=(",", ":"))
    write_gzip(file, text.replace(os.path.join(models, ""), "models/"))


if __name__ == "__main__":
    main()
