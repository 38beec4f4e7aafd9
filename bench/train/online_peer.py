# usage: online_peer.py JSON
# Trains by TRL's GRPOTrainer with the options of run_ours (sft_run.cc), and prints the same JSON object. With
# replay_rollouts it takes completions and rewards from the file, in its order.
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
    options.pop("method")
    adapter = None
    if options.pop("use_peft", False):
        import peft
        adapter = peft.LoraConfig(
            r=options.pop("lora_r"), lora_alpha=options.pop("lora_alpha"), lora_dropout=options.pop("lora_dropout"),
            target_modules=options.pop("lora_target_modules"), task_type="CAUSAL_LM")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        work["model"], dtype=getattr(torch, options.pop("dtype")))
    tokenizer = transformers.AutoTokenizer.from_pretrained(work["model"])
    rows = [json.loads(line) for line in open(work["dataset"], encoding="utf-8")]
    replay = options.pop("replay_rollouts", None)
    given = [json.loads(line) for line in open(replay, encoding="utf-8")] if replay else []
    place = {"completions": 0, "rewards": 0}

    def take(what, count):
        begin = place[what]
        place[what] += count
        return given[begin:begin + count]

    def points(completions, **columns):
        return [float(row["rewards"]["points"]) for row in take("rewards", len(completions))]

    def nothing(completions, **columns):
        return [0.0] * len(completions)

    rewards = [points] if given else [nothing]
    options.pop("reward_funcs", None)
    seconds, losses, first = [], [], []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            self.begin = time.monotonic()

        def on_step_end(self, args, state, control, **kwargs):
            seconds.append(time.monotonic() - self.begin)
            first.append(time.monotonic() - work["start"])

    class Replayed(trl.GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            if not given:
                return super()._generate_single_turn(prompt_ids, *args, **kwargs)
            return [row["completion_ids"] for row in take("completions", len(prompt_ids))], None

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            micro.append(float(loss.detach()))
            return loss

    micro = []
    with tempfile.TemporaryDirectory() as output:
        arguments = trl.GRPOConfig(
            output_dir=output, max_steps=work["steps"], use_cpu=True, report_to=[], logging_steps=1,
            save_strategy="no", disable_tqdm=True, **options)
        trainer = Replayed(model=model, reward_funcs=rewards, args=arguments,
                           train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer,
                           peft_config=adapter, callbacks=[Clock()])
        trainer.train()
    accumulation = len(micro) // len(seconds)
    losses = [sum(micro[i * accumulation:(i + 1) * accumulation]) for i in range(len(seconds))]
    totals = [0] + [record["num_tokens"] for record in trainer.state.log_history if "num_tokens" in record]
    tokens = [after - before for before, after in zip(totals, totals[1:])][:len(seconds)]
    print()
    print(json.dumps({
        "by": f"TRL {trl.__version__}, torch {torch.__version__}",
        "tokens": tokens, "seconds": seconds, "losses": losses, "first_step_seconds": first[0],
        "attention": model.config._attn_implementation,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
