# usage: sft_peer.py JSON
# What run_ours of sft_run.cc does, by TRL's SFTTrainer with the same options; the same JSON object.
import json
import resource
import sys
import tempfile
import time


def main():
    work = json.loads(sys.argv[1])
    import datasets
    import torch
    import transformers
    import trl

    transformers.utils.logging.disable_progress_bar()
    options = dict(work["options"])
    torch.set_num_threads(options.pop("runtime.threads"))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        work["model"], dtype=getattr(torch, options.pop("dtype")))
    tokenizer = transformers.AutoTokenizer.from_pretrained(work["model"])
    adapter = None
    if options.pop("use_peft", False):
        import peft
        adapter = peft.LoraConfig(
            r=options.pop("lora_r"), lora_alpha=options.pop("lora_alpha"), lora_dropout=options.pop("lora_dropout"),
            target_modules=options.pop("lora_target_modules"), task_type="CAUSAL_LM")
    rows = [json.loads(line) for line in open(work["dataset"], encoding="utf-8")]
    dataset = datasets.Dataset.from_list(rows)
    if work["columns"]:
        dataset = dataset.rename_columns(json.loads(work["columns"]))

    seconds, tokens, losses, first = [], [], [], []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            self.begin = time.monotonic()
            tokens.append(0)

        def on_step_end(self, args, state, control, **kwargs):
            seconds.append(time.monotonic() - self.begin)
            first.append(time.monotonic() - work["start"])

        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in logs:
                losses.append(logs["loss"])

    # The loss is logged with four digits after the point otherwise.
    class Unrounded(trl.SFTTrainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            mask = inputs.get("attention_mask")
            tokens[-1] += int(inputs["input_ids"].numel() if mask is None else mask.sum())
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            micro.append(float(loss.detach()))
            return loss

    micro = []
    with tempfile.TemporaryDirectory() as output:
        arguments = trl.SFTConfig(
            output_dir=output, max_steps=work["steps"], use_cpu=True, report_to=[], logging_steps=1,
            save_strategy="no", disable_tqdm=True, **options)
        trainer = Unrounded(model=model, args=arguments, train_dataset=dataset, processing_class=tokenizer,
                            peft_config=adapter, callbacks=[Clock()])
        trainer.train()
    accumulation = len(micro) // len(seconds)
    print()
    print(json.dumps({
        "by": f"TRL {trl.__version__}, torch {torch.__version__}",
        "tokens": tokens, "seconds": seconds, "logged_losses": losses,
        "losses": [sum(micro[i * accumulation:(i + 1) * accumulation]) for i in range(len(seconds))],
        "first_step_seconds": first[0],
        "attention": model.config._attn_implementation,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
