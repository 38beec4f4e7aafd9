#!/usr/bin/env python3
"""Records what normal_ of PyTorch 2.15.0 draws on a CPU for tensors of a few sizes, and the uniform number after them.

usage: record_draws.py FILE    writes tests/golden/reward/draws.json
"""

import json
import sys

import torch

SEED, DEVIATION = 42, 0.02


def draw(size, dtype):
    torch.manual_seed(SEED)
    values = torch.empty(1, size, dtype=dtype).normal_(0, DEVIATION)
    return {"type": str(dtype).removeprefix("torch."), "values": [float(f"{x:.9g}") for x in values.float().flatten().tolist()],
            "next": float(f"{torch.rand(1).item():.9g}")}


def main(path):
    cases = [draw(size, dtype) for dtype in (torch.float32, torch.bfloat16) for size in (5, 8, 16, 17, 24, 40)]
    lines = ",\n".join(json.dumps(case) for case in cases)
    open(path, "w", encoding="utf-8").write(f'{{"seed": {SEED}, "deviation": {DEVIATION}, "cases": [\n{lines}]}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
