#!/usr/bin/env python3
"""Adapters that the command TRL trains, opened by PEFT, and adapters that PEFT saves, opened by TRL: on the same rows both
must have the same loss. MODEL is a directory that both open.

usage: PYTHON adapters_with_peft.py TRL MODEL    PYTHON has peft 0.21.2 and transformers 5.23.0
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
SETTINGS = [
    dict(target_modules=["q_proj", "v_proj"]),
    dict(target_modules="all-linear", r=4, lora_alpha=6, use_rslora=True),
    dict(target_modules=["q_proj", "down_proj"], use_dora=True, rank_pattern={"q_proj": 2}, alpha_pattern={"down_proj": 3}),
    dict(target_modules=r".*layers\.[02]\.mlp\..*_proj", modules_to_save=["input_layernorm"]),
    dict(target_modules=["embed_tokens", "k_proj"]),
]
LIMIT = 1e-5  # of the loss, relative


class Rows:
    """TEXTS as a file for TRL, and as ids for transformers."""

    def __init__(self, folder, model):
        self.path = folder + "/rows.jsonl"
        with open(self.path, "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.ids = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in TEXTS]

    def loss(self, model):
        with torch.no_grad():
            losses = [model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.item() for ids in self.ids]
        return sum(losses) / len(losses)


class Command:
    def __init__(self, trl, model, rows, folder):
        self.start = [trl, "sft", "--model_name_or_path", model, "--dataset_name", rows.path, "--bf16", "false",
                      "--per_device_train_batch_size", "1", "--per_device_eval_batch_size", "1", "--report_to", "none",
                      "--save_strategy", "no"]
        self.rows, self.folder = rows, folder

    def run(self, out, **options):
        words = [word for key, value in options.items() for word in ("--" + key, str(value))]
        subprocess.run([*self.start, "--output_dir", out, *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def train(self, out, settings):
        self.run(out, use_peft="true", lora_dropout=0, peft_config=json.dumps(settings), max_steps=4, learning_rate=5e-3)

    def loss(self, adapter):
        out = self.folder + "/evaluated"
        self.run(out, use_peft="true", adapter_name_or_path=adapter, eval_dataset_name=self.rows.path, eval_strategy="steps",
                 eval_on_start="true", max_steps=1, learning_rate=0)
        history = json.load(open(out + "/trainer_state.json"))["log_history"]
        return next(record["eval_loss"] for record in history if "eval_loss" in record)


def base_of(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def main(trl, model):
    failed = False

    def compare(what, ours, theirs, bare):
        nonlocal failed
        failed |= not abs(ours - theirs) < LIMIT * theirs < abs(theirs - bare)
        print(f"{what}: trl {ours:.7f}, PEFT {theirs:.7f}, without the adapter {bare:.7f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(folder, model)
        command = Command(trl, model, rows, folder)
        bare = rows.loss(base_of(model))
        for number, settings in enumerate(SETTINGS):
            name = json.dumps(settings)
            ours = f"{folder}/ours{number}"
            command.train(ours, settings)
            compare("trained by trl " + name, command.loss(ours),
                    rows.loss(peft.PeftModel.from_pretrained(base_of(model), ours).eval()), bare)
            torch.manual_seed(number)
            config = peft.LoraConfig(**{"task_type": "CAUSAL_LM", "init_lora_weights": False, **settings})
            made = peft.get_peft_model(base_of(model), config).eval()
            for key, value in made.named_parameters():
                if "lora_B" in key or "lora_embedding_B" in key:
                    value.data *= 0.1
            theirs = f"{folder}/theirs{number}"
            made.save_pretrained(theirs)
            compare("made by PEFT " + name, command.loss(theirs), rows.loss(made), bare)
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
