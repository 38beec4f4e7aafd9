# usage: preference_peer.py JSON
# What run_ours of sft_run.cc does with method dpo, kto or reward, by TRL's trainer with the same options; the
# same JSON object. Tokens are sums of attention masks. The reference is computed every step.
import json
import resource
import sys
import tempfile
import time


def adapter_of(options, task):
    if not options.pop("use_peft", False):
        return None
    import peft
    return peft.LoraConfig(
        r=options.pop("lora_r"), lora_alpha=options.pop("lora_alpha"), lora_dropout=options.pop("lora_dropout"),
        target_modules=options.pop("lora_target_modules"), task_type=task)


def model_of(path, method, dtype):
    import torch
    import transformers
    if method != "reward":
        return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
    transformers.set_seed(42)  # the new head is drawn from it
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        path, num_labels=1, dtype=getattr(torch, dtype))


def main():
    work = json.loads(sys.argv[1])
    import datasets
    import torch
    import transformers
    import trl

    transformers.utils.logging.disable_progress_bar()
    options = dict(work["options"])
    torch.set_num_threads(options.pop("runtime.threads"))
    method = options.pop("method")
    trainer_class = {"dpo": trl.DPOTrainer, "kto": trl.KTOTrainer, "reward": trl.RewardTrainer}[method]
    config_class = {"dpo": trl.DPOConfig, "kto": trl.KTOConfig, "reward": trl.RewardConfig}[method]
    adapter = adapter_of(options, "SEQ_CLS" if method == "reward" else "CAUSAL_LM")
    model = model_of(work["model"], method, options.pop("dtype"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(work["model"])
    rows = [json.loads(line) for line in open(work["dataset"], encoding="utf-8")]

    seconds, tokens, losses, first = [], [], [], []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            self.begin = time.monotonic()
            tokens.append(0)

        def on_step_end(self, args, state, control, **kwargs):
            seconds.append(time.monotonic() - self.begin)
            first.append(time.monotonic() - work["start"])

    # The loss is logged with four digits after the point otherwise.
    class Counted(trainer_class):
        def compute_loss(self, model, inputs, *args, **kwargs):
            # KTO's prompts with completions of other rows are not counted, as in num_tokens.
            masks = [value for name, value in inputs.items()
                     if name.endswith("attention_mask") and not name.startswith("KL_")]
            tokens[-1] += int(sum(mask.sum() for mask in masks))
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            micro.append(float((loss[0] if isinstance(loss, tuple) else loss).detach()))
            return loss

    micro = []
    with tempfile.TemporaryDirectory() as output:
        arguments = config_class(
            output_dir=output, max_steps=work["steps"], use_cpu=True, report_to=[], logging_steps=1,
            save_strategy="no", disable_tqdm=True, **options)
        trainer = Counted(model=model, args=arguments, train_dataset=datasets.Dataset.from_list(rows),
                          processing_class=tokenizer, peft_config=adapter, callbacks=[Clock()])
        trainer.train()
    accumulation = len(micro) // len(seconds)
    print()
    print(json.dumps({
        "by": f"TRL {trl.__version__}, torch {torch.__version__}",
        "tokens": tokens, "seconds": seconds,
        "losses": [sum(micro[i * accumulation:(i + 1) * accumulation]) / accumulation for i in range(len(seconds))],
        "first_step_seconds": first[0],
        "attention": model.config._attn_implementation,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
