"""Model directories with random weights: the recorded families, with a vocabulary that a tokenizer has."""

import json
import os
import re
import struct

import weights

DATA = os.path.join(os.path.dirname(__file__), "../golden")
SEED = 3
ROWS = ["Once upon a time, in a village by the sea, there was a light.", "The capital of France is Paris.",
        "def fibonacci(n):\n    return n", "In 1969, 3 men went to the moon."]

# Case -> what of its config.json is another, so that llama.cpp computes it, and the tokenizer's kind.
CASES = {
    "mistral_window": ({"sliding_window": None}, "bytes"),
    "qwen2_window": ({"use_sliding_window": False}, "bytes"),
    "qwen3_window": ({"use_sliding_window": False, "attention_bias": False}, "bytes"),
    "gemma": ({}, "marks"),
    "gemma2": ({"query_pre_attn_scalar": 12}, "marks"),
    "gemma3_text": ({"query_pre_attn_scalar": 12}, "marks"),
    "phi3": ({"sliding_window": None}, "bytes"),
    # Its short factors: llama.cpp takes the long ones wherever its context, a multiple of 256, could hold them.
    "phi3_longrope": ({"max_position_embeddings": 512, "original_max_position_embeddings": 384}, "bytes"),
    # Its long ones, which are taken here as soon as a text is as long.
    "phi3_longrope_crossing": ({"original_max_position_embeddings": 3}, "bytes"),
    # The ends of the ramp are those that llama.cpp uses, and the texts stay within the context.
    "llama_yarn": ({"max_position_embeddings": 256,
                    "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                        "original_max_position_embeddings": 64}}, "bytes"),
    "granite": ({}, "bytes"),
    "smollm3": ({"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0], "layer_types": None}, "bytes"),
    "olmo2": ({}, "bytes"),
    "stablelm": ({}, "bytes"),
    "stablelm_parallel": ({}, "bytes"),
    "gpt_neox": ({}, "bytes"),
    "gpt2": ({"attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}, "bytes"),
    "mixtral": ({}, "bytes"),
    "qwen2_moe": ({"mlp_only_layers": []}, "bytes"),
    "qwen3_moe": ({"decoder_sparse_step": 1}, "bytes"),
}


def tokenizer(kind, folder):
    """Writes one; returns the number of its tokens."""
    source = os.path.join(DATA, "tokenizers", "bpe_gpt2" if kind == "bytes" else "sentencepiece_bpe")
    with open(os.path.join(source, "tokenizer.json")) as file:
        made = json.load(file)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    if kind == "marks":  # Gemma's steps
        made["normalizer"] = made["normalizer"]["normalizers"][1]
        made["decoder"]["decoders"].pop()
        config.update(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
    for name, content in (("tokenizer.json", made), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)
    ids = list(made["model"]["vocab"].values()) + [token["id"] for token in made["added_tokens"]]
    return max(ids) + 1


def numbered(name, places):
    names = [name]
    for numbers in places:
        names = [known.replace("#", str(number), 1) for known in names for number in numbers]
    return names


def tensors(case, config, rows):
    """Name -> shape, center, spread: of `rows` tokens, and every layer as its kind is."""
    moe, biases = "num_experts" in config, config.get("attention_bias", True)
    for name, (places, shape, center, spread) in case["tensors"].items():
        dense = re.search(r"\.mlp\.(gate|up|down)_proj", name)
        if (moe and dense) or (not biases and re.search(r"self_attn.*\.bias", name)):
            continue
        if places:
            layers = config.get("num_hidden_layers", config.get("n_layer"))
            places = [range(layers), *places[1:]]
        shape = [rows if size == case["config"]["vocab_size"] else size for size in shape]
        for each in numbered(name, places):
            yield each, shape, center, spread


def write_safetensors(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def build(name, folder):
    """Writes the directory of a case; returns rows to train it with."""
    os.makedirs(folder)
    with open(os.path.join(DATA, "families", f"{name}.json")) as file:
        case = json.load(file)
    edits, kind = CASES[name]
    rows = tokenizer(kind, folder)
    config = {**case["config"], **edits, "vocab_size": rows}
    if "original_max_position_embeddings" in edits:
        config["rope_parameters"] |= {k: v for k, v in edits.items() if k.startswith("original")}
    end = rows - 1 if kind == "bytes" else 2
    config.update(bos_token_id=end, eos_token_id=end, pad_token_id=end)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    rows_file = os.path.join(folder, "rows.jsonl")
    with open(rows_file, "w") as file:
        for row in ROWS:
            print(json.dumps({"text": row}), file=file)
    arrays = {key: weights.weight(SEED, key, *kind) for key, *kind in tensors(case, config, rows)}
    write_safetensors(os.path.join(folder, "model.safetensors"), arrays)
    return rows_file
