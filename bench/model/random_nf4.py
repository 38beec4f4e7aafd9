#!/usr/bin/env python3
"""Writes a model of Qwen3-30B-A3B's shape whose linear layers and experts are random NF4 blocks with nested scales, as
bitsandbytes saves them: 16.7 GB. Needs nothing but Python.

usage: random_nf4.py TOKENIZER_DIR DIRECTORY [LAYERS]    LAYERS: of the 48
"""

import json
import math
import os
import random
import shutil
import struct
import sys

HIDDEN, HEADS, KV_HEADS, HEAD, EXPERTS, WIDTH, VOCABULARY = 2048, 32, 4, 128, 128, 768, 151936
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip


def config(layers):
    return {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": HIDDEN,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "num_experts": EXPERTS,
        "num_experts_per_tok": 8, "moe_intermediate_size": WIDTH, "intermediate_size": 6144, "norm_topk_prob": True,
        "num_hidden_layers": layers, "vocab_size": VOCABULARY, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
    }  # fmt: skip


class Writer:
    """Tensors and what their bytes are; random ones repeat a block of 16 MB from another place each."""

    def __init__(self):
        self.tensors = []
        self.noise = random.Random(1).randbytes(1 << 24)

    def add(self, name, kind, shape, data):
        size = math.prod(shape) * {"U8": 1, "BF16": 2, "F32": 4}[kind]
        self.tensors.append((name, kind, shape, size, data))

    def numbers(self, name, shape):
        """bfloat16 about 0.02 wide: a random sign, an exponent of few values and a random mantissa."""
        self.add(name, "BF16", shape, "numbers")

    def ones(self, name, width):
        self.add(name, "BF16", [width], struct.pack("<H", 0x3F80) * width)

    def linear(self, name, rows, columns):
        count = rows * columns
        blocks, groups = count // 64, -(-count // 64 // 256)
        state = {
            "quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns],
            "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.05,
        }  # fmt: skip
        text = json.dumps(state).encode()
        code = struct.pack("<256f", *[(i - 128) / 128 for i in range(256)])
        self.add(name, "U8", [count // 2, 1], "noise")
        self.add(name + ".absmax", "U8", [blocks], "noise")
        self.add(name + ".quant_map", "F32", [16], struct.pack("<16f", *NF4))
        self.add(name + ".nested_absmax", "F32", [groups], struct.pack("<f", 0.01) * groups)
        self.add(name + ".nested_quant_map", "F32", [256], code)
        self.add(name + ".quant_state.bitsandbytes__nf4", "U8", [len(text)], text)

    def pieces(self, size, data, place):
        if isinstance(data, bytes):
            yield data
            return
        noise = self.noise
        if data == "numbers":
            table = [(0x3C00 | i & 0xFF | (i & 0x100) << 7).to_bytes(2, "little") for i in range(512)]
            noise = b"".join(table[a << 1 | b >> 7] for a, b in zip(noise[: 1 << 20 : 2], noise[1 : 1 << 20 : 2]))
        while size > 0:
            start = place % (len(noise) // 2)
            piece = noise[start : start + min(size, len(noise) - start)]
            yield piece
            size -= len(piece)

    def write(self, path):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        ordered = sorted(self.tensors, key=lambda tensor: tensor[1] == "U8")  # wider types first: aligned
        for name, kind, shape, size, _ in ordered:
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for number, (_, _, _, size, data) in enumerate(ordered):
                for piece in self.pieces(size, data, number * 65536):
                    file.write(piece)


def main(tokenizer, directory, layers=48):
    os.makedirs(directory)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if os.path.exists(f"{tokenizer}/{name}"):
            shutil.copy(f"{tokenizer}/{name}", directory)
    with open(directory + "/config.json", "w") as file:
        json.dump(config(layers), file, indent=2)
    writer = Writer()
    writer.numbers("model.embed_tokens.weight", [VOCABULARY, HIDDEN])
    for i in range(layers):
        layer = f"model.layers.{i}."
        writer.ones(layer + "input_layernorm.weight", HIDDEN)
        writer.ones(layer + "post_attention_layernorm.weight", HIDDEN)
        for norm in ("q_norm", "k_norm"):
            writer.ones(f"{layer}self_attn.{norm}.weight", HEAD)
        for name, heads in (("q_proj", HEADS), ("k_proj", KV_HEADS), ("v_proj", KV_HEADS)):
            writer.linear(f"{layer}self_attn.{name}.weight", heads * HEAD, HIDDEN)
        writer.linear(layer + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD)
        writer.numbers(layer + "mlp.gate.weight", [EXPERTS, HIDDEN])
        for expert in range(EXPERTS):
            for name, shape in (("gate_proj", (WIDTH, HIDDEN)), ("up_proj", (WIDTH, HIDDEN)), ("down_proj", (HIDDEN, WIDTH))):
                writer.linear(f"{layer}mlp.experts.{expert}.{name}.weight", *shape)
    writer.ones("model.norm.weight", HIDDEN)
    writer.numbers("lm_head.weight", [VOCABULARY, HIDDEN])
    writer.write(directory + "/model.safetensors")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
