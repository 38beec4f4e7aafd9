#!/usr/bin/env python3
"""Records runs of TRL 1.16.0's SFT and reward trainers with adapters, where chat_template_path is a model whose tokenizer
brings new tokens: how the factors begin, what is logged, and the rows of new tokens before and after.

usage: record_template_adapters.py MODELS FILE    writes tests/golden/template_model/adapters.json.gz; MODELS is tests/golden/models
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
from safetensors import safe_open

from compact import write_gzip

torch.set_num_threads(1)
# SGD: Adam's first steps are signs of gradients, and some gradients are noise of bfloat16.
BF16 = {"model_init_kwargs": {"dtype": "bfloat16"}, "bf16": True, "optim": "sgd", "learning_rate": 0.01}
# A tied model with new tokens and an adapter is one that SFTTrainer 1.16 fails on.
CASES = {
    "sft": {"model": "llama3", "source": "qwen2"},
    "sft_bfloat16": {"model": "llama3", "source": "qwen2", "args": BF16},
    "sft_seed": {"model": "llama3", "source": "qwen2", "args": {"seed": 7}},
    "reward": {"model": "llama", "source": "qwen2"},
    "reward_bfloat16": {"model": "llama", "source": "qwen2", "args": BF16},
}
TURNS = [("one two three", "four five", "six"), ("six", "seven eight nine ten", "one")]


def chat(user, assistant):
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def rows(reward):
    if not reward:
        return [{"messages": chat(a, b)} for a, b, _ in TURNS * 4]
    return [{"chosen": chat(a, b), "rejected": chat(a, c)} for a, b, c in TURNS * 4]


def digits(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().float().flatten().tolist()]


def factors(model):
    return {name.replace(".default", ""): digits(p[0, :4]) for name, p in model.named_parameters() if "lora_A" in name}


def token_rows(model):
    (name, p), = ((n, p) for n, p in model.named_parameters() if "trainable_tokens" in n)
    return name.replace(".default", ""), p.detach().clone()


def case(models, about):
    reward = "reward" in about["name"]
    args = {"learning_rate": 1e-4, "seed": 42, "bf16": False, **about.get("args", {})}
    lora = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "SEQ_CLS" if reward else "CAUSAL_LM"}
    with tempfile.TemporaryDirectory() as folder:
        make = trl.RewardConfig if reward else trl.SFTConfig
        config = make(folder, use_cpu=True, gradient_checkpointing=False, logging_steps=1, report_to=[], save_strategy="no",
                      train_sampling_strategy="sequential", per_device_train_batch_size=2, max_steps=4, chat_template_path=os.path.join(models, about["source"]), **args)
        trainer = (trl.RewardTrainer if reward else trl.SFTTrainer)(
            os.path.join(models, about["model"]), config, train_dataset=datasets.Dataset.from_list(rows(reward)),
            peft_config=peft.LoraConfig(**lora))
        out = {**about, "args": args, "lora": lora, "rows": rows(reward)[:2], "factors": factors(trainer.model)}
        name, begin = token_rows(trainer.model)
        trainer.train()
        out["records"] = [{k: r[k] for k in ("loss", "grad_norm")} for r in trainer.state.log_history if "loss" in r]
        end = token_rows(trainer.model)[1]
        row = (end - begin).norm(dim=1).argmax().item()
        out["tokens"] = {"name": name, "shape": list(end.shape), "row": row, "begin": digits(begin[row]), "end": digits(end[row])}
        trainer.save_model(folder)
        with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as file:
            out["saved"] = {key: [str(file.get_slice(key).get_dtype()), list(file.get_slice(key).get_shape())] for key in file.keys()}
    return out


def main():
    models, file = sys.argv[1:]
    cases = [case(models, {"name": name, **about}) for name, about in CASES.items()]
    write_gzip(file, "[\n" + ",\n".join(json.dumps(one) for one in cases) + "\n]\n")


if __name__ == "__main__":
    main()
