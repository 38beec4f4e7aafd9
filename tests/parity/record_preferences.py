#!/usr/bin/env python3
"""Records runs of TRL 1.16.0's DPOTrainer and KTOTrainer on the tiny models of tests/golden: DPO in bfloat16, with an
adapter on NF4 blocks and with padding_free; KTO with evaluations and with a reference that follows the policy.

usage: record_preferences.py FOLDER [CASE...]    writes FOLDER/CASE/case.json.gz, as in tests/golden/trajectories
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
from record_quantised import NF4, quantised

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
COMMON = {"bf16": False, "logging_steps": 1, "train_sampling_strategy": "sequential", "seed": 42, "per_device_train_batch_size": 4,
          "max_steps": 8, "learning_rate": 0.002}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "task_type": "CAUSAL_LM"}
TRAINERS = {"dpo": (trl.DPOTrainer, trl.DPOConfig, "train_pref.jsonl"), "kto": (trl.KTOTrainer, trl.KTOConfig, "train_unpaired.jsonl")}
CASES = {
    "dpo_bf16": {"args": {"bf16": True}, "tolerance": 0.03},
    "dpo_bf16_weights": {"model": "qwen2_bf16", "args": {"bf16": True, "model_init_kwargs": {"dtype": "bfloat16"}}, "tolerance": 0.03},
    "dpo_qlora_nf4": {"args": {"learning_rate": 0.01}, "lora": LORA, "quantization": NF4, "tolerance": 0.02},
    # TRL 1.16.0 says that padding_free is not there at the moment, and pads.
    "dpo_padding_free": {"args": {"padding_free": True, "max_length": None}},
    # Three blocks of rows that lend each other their completions (by the batch size of training: 4, 4 and 1), in
    # batches of 3.
    "kto_eval": {"args": {"eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 3}, "eval_rows": (55, 63)},
    "kto_sync_ref": {"args": {"sync_ref_model": True, "ref_model_sync_steps": 3}},
}


def digits(value):
    return float(f"{value:.9g}")


def nested(value):
    """Nine digits of each number in lists and records."""
    if isinstance(value, dict):
        return {key: nested(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [nested(inner) for inner in value]
    return digits(value) if isinstance(value, float) else value


def fingerprint(tensor):
    values = tensor.detach().double().flatten()
    return {"shape": list(tensor.shape), "norm": digits(values.norm().item()), "mean": digits(values.mean().item()),
            "first": [digits(x) for x in values[:8].tolist()]}


def records(trainer):
    """The log without times."""
    def timed(key):
        return key.endswith(("_runtime", "_per_second")) or key == "total_flos"
    return [nested({k: v for k, v in record.items() if not timed(k)}) for record in trainer.state.log_history]


def keep_inputs(trainer, kept):
    """Puts the tensors of the first two micro-batches into kept."""
    compute = trainer.compute_loss

    def keeping(model, inputs, *args, **kwargs):
        if len(kept) < 2:
            kept.append({key: value.int().tolist() if torch.is_tensor(value) else value for key, value in inputs.items()})
        return compute(model, inputs, *args, **kwargs)
    trainer.compute_loss = keeping


def rows_between(data, rows):
    return data.select(range(rows[0], rows[1] + 1))


def start(name, about, args, folder):
    """The trainer of a case."""
    kind, config, file = TRAINERS[name[:3]]
    config = config(folder, use_cpu=True, gradient_checkpointing=False, report_to=[], save_strategy="no", **args)
    data = datasets.load_dataset("json", data_files=f"{DATA}/data/datasets/{file}", split="train")
    path = f"{DATA}/models/{about.get('model', 'qwen2')}"
    torch.manual_seed(args["seed"])
    model = quantised(path, about["quantization"]) if "quantization" in about else path
    return kind(model, args=config, train_dataset=data, eval_dataset=rows_between(data, about["eval_rows"]) if "eval_rows" in about else None,
                peft_config=peft.LoraConfig(**about["lora"]) if "lora" in about else None)


def trained(model):
    """Under the names of the policy; a tied head has one too, as in a state dict."""
    lora = any(".lora_A." in name for name, _ in model.named_parameters())
    named = model.named_parameters() if lora else model.state_dict(keep_vars=True).items()
    return {name: fingerprint(p) for name, p in named if p.requires_grad}


def run(name, about, args, attention=None):
    """The trainer after the run, the first inputs, and how an adapter began."""
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = start(name, about, args, folder)
        for model in (trainer.model, trainer.ref_model):
            if attention and model is not None:
                (model.get_base_model() if "lora" in about else model).set_attn_implementation(attention)
        keep_inputs(trainer, kept)
        begin = trained(trainer.model) if "lora" in about else None
        trainer.train()
    return trainer, kept, begin


def spread(one, other):
    """How far two logs are apart: under each name the largest difference of its kind, say that of all rewards/."""
    def kind(key):
        return key.split("/")[0]
    apart = {}
    for a, b in zip(one, other, strict=True):
        for key in a:
            apart[kind(key)] = max(apart.get(kind(key), 0), digits(abs(a[key] - b[key])))
    return {key: apart[kind(key)] for key in one[0] | one[-1] if apart[kind(key)] > 0}


def case(name, about):
    args = {**COMMON, **about["args"]}
    trainer, kept, begin = run(name, about, args)
    log, eval_rows = records(trainer), about.get("eval_rows")
    return {
        "name": name, "trainer": type(trainer).__name__, "model": "models/" + about.get("model", "qwen2"),
        "dataset": "data/datasets/" + TRAINERS[name[:3]][2], "rows": "0..63", "eval_rows": "{}..{}".format(*eval_rows) if eval_rows else None,
        "args": args, "optim": str(trainer.args.optim.value), "lr_scheduler_type": str(trainer.args.lr_scheduler_type.value),
        "lora": about.get("lora"), "quantization": {**about["quantization"], "bnb_4bit_compute_dtype": "float32"} if "quantization" in about else None,
        "ref_model": None, "rewards": None, "teacher_model": None, "relative_tolerance": about.get("tolerance", 1e-3),
        # What another order of rounding makes of it: TRL's own attention in plain operators.
        "spread": spread(log, records(run(name, about, args, "eager")[0])) if "tolerance" in about else {},
        "num_update_steps": trainer.state.global_step, "log_history": log, "first_inputs": kept, "generations": None,
        "first_weights": begin, "final_weights": trained(trainer.model),
    }


def main(folder, *names):
    torch.set_num_threads(1)
    for name in names or CASES:
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        write_gzip(f"{folder}/{name}/case.json.gz", json.dumps(case(name, CASES[name]), separators=(",", ":")))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
