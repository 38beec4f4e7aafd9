#!/usr/bin/env python3
"""Records what transformers 5.23.0, PEFT 0.21.2 and TRL 1.16.0 make of tiny models that bitsandbytes 0.50.2 quantised.

usage: record_quantised.py MODELS DATASETS FILE    writes tests/golden/quantization/runs.json.gz; MODELS and DATASETS are
tests/golden/models and tests/golden/data/datasets
"""

import json
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import bitsandbytes
import bitsandbytes.functional as functional
import datasets
import peft
import torch
import transformers
import trl
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from bitsandbytes.backends.utils import _get_4bit_code

import weights
from compact import write_gzip
from tiny_models import numbered, write_safetensors

IDS = [3 + 7 * i % 400 for i in range(12)]
NF4, FP4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}
NESTED = {**NF4, "bnb_4bit_use_double_quant": True}
QV = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
RUNS = {
    "fp4": ("qwen2", FP4, {**QV, "target_modules": "all-linear"}),
    "nf4_dora": ("qwen2", NF4, {**QV, "use_dora": True}),
    "nf4_tokens": ("llama3", NESTED, {**QV, "trainable_token_indices": [5, 300]}),
}


def correct(A, absmax, blocksize, quant_type, shape, dtype):
    """The CPU kernel with AVX-512 takes wrong scales where rows end within a block; the formula in torch does not."""
    return _dequantize_4bit_compute(A.view(torch.uint8).reshape(-1), absmax, _get_4bit_code(quant_type, A.device), blocksize, shape, dtype)


LIBRARY = torch.library.Library("bitsandbytes", "IMPL")
LIBRARY.impl("dequantize_4bit", correct, "CPU", allow_override=True)


def quantised(path, settings):
    settings = transformers.BitsAndBytesConfig(**settings, bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, quantization_config=settings, dtype=torch.float32)
    for module in model.modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            module.support_avx512bf16_for_cpu = False  # another kernel, for some widths alone
    return model


def some(tensor):
    """Every 37th column, and what all of them add up to."""
    rows = tensor.detach().double()
    return {"columns": [[float(f"{x:.7g}") for x in row[::37].tolist()] for row in rows], "sums": [float(f"{x:.7g}") for x in rows.sum(1).tolist()]}


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor([IDS])).logits[0].float()


def run(path, rows, settings, lora):
    torch.manual_seed(42)
    model = quantised(path, settings)
    with tempfile.TemporaryDirectory() as folder:
        args = trl.SFTConfig(folder, bf16=False, use_cpu=True, gradient_checkpointing=False, logging_steps=1, report_to=[], save_strategy="no",
                             train_sampling_strategy="sequential", seed=42, per_device_train_batch_size=4, max_steps=6, learning_rate=0.01)
        trainer = trl.SFTTrainer(model, args, train_dataset=datasets.load_dataset("json", data_files=rows, split="train"),
                                 peft_config=peft.LoraConfig(task_type="CAUSAL_LM", **lora))
        trainer.train()
    keep = ("loss", "grad_norm", "entropy", "mean_token_accuracy")
    records = [{key: record[key] for key in keep} for record in trainer.state.log_history[:-1]]
    return {"model": os.path.basename(path), "quantization": settings, "lora": lora, "records": records, "logits": some(logits(trainer.model.eval()))}


def dequantised(path, settings):
    """The model with the numbers that its blocks stand for."""
    model = quantised(path, settings)
    plain = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    for name, module in model.named_modules():
        if isinstance(module, bitsandbytes.nn.Linear8bitLt):
            weight = module.weight.CB.float() * module.weight.SCB[:, None] * torch.tensor(1 / 127, dtype=torch.float32)
            plain.get_submodule(name).weight.data.copy_(weight)
    return plain


def experts(path):
    """bitsandbytes leaves experts alone where they are one tensor; here each one's matrix is quantised by itself."""
    model = quantised(path, NF4)
    for name, parameter in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            for matrix in parameter.data:
                matrix.copy_(functional.dequantize_4bit(*functional.quantize_4bit(matrix.clone(), quant_type="nf4", blocksize=64)))
    return model


def write_family(name, folder):
    """The model of a recorded family, as in ../support/seeded_model.h too."""
    os.mkdir(folder)
    with open(os.path.join(os.path.dirname(__file__), f"../golden/families/{name}.json")) as file:
        case = json.load(file)
    with open(folder + "/config.json", "w") as file:
        json.dump(case["config"], file)
    arrays = {}
    for name, (places, *kind) in case["tensors"].items():
        arrays.update((each, weights.weight(case["seed"], each, *kind)) for each in numbered(name, places))
    write_safetensors(folder + "/model.safetensors", arrays)


def main(models, rows, target):
    torch.set_num_threads(1)
    qwen2 = models + "/qwen2"
    out = {"ids": IDS, "runs": {name: run(f"{models}/{model}", rows + "/train_lm.jsonl", *case) for name, (model, *case) in RUNS.items()}}
    eight = {"load_in_8bit": True}
    out["int8"] = {"dequantised": some(logits(dequantised(qwen2, eight))), "bitsandbytes": some(logits(quantised(qwen2, eight)))}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("gpt2", "qwen3_moe"):
            write_family(name, f"{folder}/{name}")
        out["ids_families"] = [i % 90 for i in IDS]
        IDS[:] = out["ids_families"]
        out["gpt2"] = some(logits(quantised(folder + "/gpt2", NF4)))
        out["experts"] = some(logits(experts(folder + "/qwen3_moe")))
    write_gzip(target, json.dumps(out))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
