"""Weights that a name and a seed give, the same here and in ../support/seeded_model.h.

Element i of a tensor is center + spread * u, where u = k / 32768 - 1 and k is the upper half of the upper 32 bits of
splitmix64's output i (from 0), whose state starts at the 64-bit FNV-1a hash of "SEED:NAME". Center is 0 or 1 and spread
a power of two, so that every value is exact in float32.
"""

import re

import numpy as np

# First match: kind of tensor -> spread. The center is 0, but 1 for the weights of norms. Gemma's norms add the 1
# themselves, and its embeddings are scaled up.
SPREADS = [
    (r"\.bias$", 1 / 8),
    (r"(norm|norm[12]|norms\.\d+|layer_?norm|ln_[12f])\.weight$", 1 / 4),
    (r"(embed_out|lm_head|score|\.gate|shared_expert_gate)\.weight$", 1 / 2),  # heads and routers
    (r"(q_proj|k_proj|qkv_proj|c_attn|query_key_value)\.weight$", 1 / 2),
    (r"(o_proj|down_proj|c_proj|w2|dense|dense_4h_to_h)\.weight$", 1 / 2),
    (r"", 1 / 4),
]
NORM = SPREADS[1][0]


def center_and_spread(name, gemma):
    spread = next(spread for pattern, spread in SPREADS if re.search(pattern, name))
    if gemma and "embed_tokens" in name:
        return 0.0, 1 / 8
    return (1.0 if re.search(NORM, name) and not gemma else 0.0), spread


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def upper16(seed, name, count):
    """k of the first `count` elements, as int64."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = np.uint64(fnv1a(f"{seed}:{name}")) + steps
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(48)).astype(np.int64)


def weight(seed, name, shape, center, spread):
    u = upper16(seed, name, int(np.prod(shape))) / 32768 - 1
    exact = center + spread * u
    values = exact.astype(np.float32)
    assert (values == exact).all(), name
    return values.reshape(shape)
