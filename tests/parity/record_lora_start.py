#!/usr/bin/env python3
"""Records what PEFT 0.21.2 puts into new LoRA adapters of three small modules for a seed, for each init_lora_weights.

usage: record_lora_start.py FILE    writes tests/golden/adapters/start.json
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

import peft
import torch

SEED = 42
CASES = [
    *[dict(init_lora_weights=init) for init in (True, False, "gaussian", "orthogonal", "olora", "pissa", "pissa_niter_8")],
    dict(init_lora_weights=True, lora_bias=True, target_modules=["first", "second"]),
    dict(init_lora_weights=False, lora_bias=True, target_modules=["first", "second"]),
    dict(init_lora_weights="olora", lora_alpha=8, use_rslora=True),
    dict(init_lora_weights="pissa", lora_alpha=8, use_rslora=True),
]


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 5)
        self.table = torch.nn.Embedding(9, 7)
        self.second = torch.nn.Linear(11, 13)


def values(tensor):
    return tensor.detach().float().flatten().tolist()


def main(path):
    cases = []
    start = {}
    for case in CASES:
        torch.manual_seed(1)
        model = Small()
        start = {name: values(getattr(model, name).weight) for name in ("first", "second")}
        torch.manual_seed(SEED)
        config = peft.LoraConfig(**{"r": 4, "lora_alpha": 4, "target_modules": ["first", "table", "second"], **case})
        made = peft.get_peft_model(model, config).base_model.model
        tensors = {}
        for name in config.target_modules:
            layer = getattr(made, name)
            if name == "table":
                tensors[name] = [values(layer.lora_embedding_A["default"]), values(layer.lora_embedding_B["default"])]
                continue
            a, b = layer.lora_A["default"], layer.lora_B["default"]
            tensors[name] = [values(a.weight), values(b.weight), *([values(b.bias)] if b.bias is not None else [])]
        cases.append(json.dumps({"config": {"r": 4, "lora_alpha": 4, **case}, "tensors": {k: tensors[k] for k in sorted(tensors)}}))
    text = "{" + f'"peft": "{peft.__version__}", "seed": {SEED}, "weights": ' + json.dumps(start)
    open(path, "w").write(text + ', "cases": [\n' + ",\n".join(cases) + "]}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
