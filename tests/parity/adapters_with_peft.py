#!/usr/bin/env python3
"""Adapters that the command TRL trains, opened by PEFT, and adapters that PEFT saves, opened by libtrl: on the same rows
both must have the same logits. MODEL is a directory that both open; LOGITS is the program adapter_logits of the build.

usage: PYTHON adapters_with_peft.py TRL LOGITS MODEL    PYTHON has peft 0.21.2 and transformers 5.23.0
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
warnings.simplefilter("ignore")

import peft
import torch
import transformers

TEXTS = ["The harbour is quiet in the morning.", "Ships leave when the tide turns, and not before.",
         "def add(a, b):\n    return a + b", "One, two, three: the bell rang three times."]
QV = dict(target_modules=["q_proj", "v_proj"])
SETTINGS = [
    QV,
    dict(target_modules="all-linear", r=4, lora_alpha=6, use_rslora=True),
    dict(target_modules=["q_proj", "down_proj"], use_dora=True, rank_pattern={"q_proj": 2}, alpha_pattern={"down_proj": 3}),
    dict(target_modules=r".*layers\.[02]\.mlp\..*_proj", modules_to_save=["input_layernorm"]),
    dict(target_modules=["embed_tokens", "k_proj"]),
    dict(**QV, trainable_token_indices=[5, 7, 11]),
    dict(**QV, modules_to_save=["lm_head"]),
    dict(**QV, modules_to_save=["lm_head"], ensure_weight_tying=True),
    dict(**QV, bias="lora_only"),
    dict(**QV, init_lora_weights="pissa", r=4),
    dict(**QV, init_lora_weights="olora", r=4),
]
LIMIT = 1e-4  # of the largest logit


class Command:
    def __init__(self, trl, logits, model, folder):
        self.trl, self.program, self.model = trl, logits, model
        self.rows = folder + "/rows.jsonl"
        with open(self.rows, "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)

    def train(self, out, settings):
        options = dict(model_name_or_path=self.model, dataset_name=self.rows, output_dir=out, bf16="false", report_to="none",
                       per_device_train_batch_size=1, save_strategy="no", use_peft="true", lora_dropout=0, max_steps=4,
                       peft_config=json.dumps(settings), learning_rate=5e-3)
        words = [word for key, value in options.items() for word in ("--" + key, str(value))]
        subprocess.run([self.trl, "sft", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def logits(self, adapter, ids):
        words = [self.program, self.model, adapter, *map(str, ids)]
        return torch.frombuffer(bytearray(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout),
                                dtype=torch.float32).view(len(ids), -1)


def base_of(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0]


def made_by_peft(model, settings, seed):
    torch.manual_seed(seed)
    init = {} if "init_lora_weights" in settings else {"init_lora_weights": False}
    made = peft.get_peft_model(base_of(model), peft.LoraConfig(task_type="CAUSAL_LM", **init, **settings)).eval()
    for name, value in made.named_parameters():
        if "lora_B" in name or "lora_embedding_B" in name:
            value.data *= 0.1 if init else 0.9
        elif value.requires_grad and "lora_" not in name:
            value.data += 0.02 * torch.randn_like(value)
    return made


def main(trl, program, model):
    failed = False
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    rows = [tokenizer(text)["input_ids"] for text in TEXTS]

    def compare(what, adapter, theirs):
        nonlocal failed
        size = max(logits_of(theirs, ids).abs().max() for ids in rows)
        apart = max((command.logits(adapter, ids) - logits_of(theirs, ids)).abs().max() for ids in rows) / size
        bare = max((logits_of(base_of(model), ids) - logits_of(theirs, ids)).abs().max() for ids in rows) / size
        failed |= not apart < LIMIT < bare
        print(f"{what}: logits differ by {apart:.1e} of the largest, and by {bare:.1e} without the adapter", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        command = Command(trl, program, model, folder)
        for number, settings in enumerate(SETTINGS):
            ours, theirs = f"{folder}/ours{number}", f"{folder}/theirs{number}"
            command.train(ours, settings)
            compare("trained by trl " + json.dumps(settings), ours, peft.PeftModel.from_pretrained(base_of(model), ours).eval())
            made = made_by_peft(model, settings, number)
            made.save_pretrained(theirs)
            compare("made by PEFT " + json.dumps(settings), theirs, made)
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
