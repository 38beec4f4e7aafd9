"""Teaches a model sums by GRPO, with a reward in Python: main.py MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face directory
or a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft then answers some. From there GRPO
shows it no answer, and rewards completions that are the right number. Every key of `trl options grpo` may follow; with
method=rloo or method=ppo that trainer takes GRPO's place."""

import sys

import libtrl

SHARED = {"learning_rate": 2e-3, "save_strategy": "no", "bf16": False}
SFT = {"method": "sft", "max_steps": 70, "per_device_train_batch_size": 50}
GROUPS = {
    "max_steps": 100, "per_device_train_batch_size": 400, "num_generations": 8,  # 8 for each of 50 prompts
    "max_completion_length": 4,
}
PPO = {
    "max_steps": 100, "per_device_train_batch_size": 100, "num_ppo_epochs": 2,  # one for each prompt
    "temperature": 1, "response_length": 4, "stop_token": "eos",
}
ANSWERS = {f"{a}+{b}=": str(a + b) for a in range(10) for b in range(10)}  # by prompt


def check_sums(rollout: libtrl.Rollout) -> list[float]:
    """Called once for each generation, with all of its completions: 1 for one that is the sum and nothing else."""
    return [float(row["completion"] == ANSWERS[row["prompt"]]) for row in rollout]


def on_event(event: libtrl.Event) -> None:
    reward = event.metrics.get("reward", event.metrics.get("objective/scores"))  # the name that PPO has for it
    if event.kind == libtrl.EventKind.STEP and reward is not None:
        print(f"step {event.metrics['step']:3.0f}: mean reward {reward:.3f}", flush=True)


def show_sums(model: str, output: str) -> None:
    config = libtrl.Config({**SHARED, **SFT}, model_name_or_path=model, output_dir=output)
    rows = libtrl.Dataset.from_rows([{"prompt": prompt, "completion": answer} for prompt, answer in ANSWERS.items()], config)
    with libtrl.Trainer(config, rows) as trainer:
        trainer.train()
        trainer.save()


def reward_sums(model: str, output: str, options: dict[str, str]) -> None:
    settings = PPO if options.get("method") == "ppo" else GROUPS
    config = libtrl.Config({"method": "grpo", **SHARED, **settings, "model_name_or_path": model, "output_dir": output, **options})
    rows = libtrl.Dataset.from_rows([{"prompt": prompt} for prompt in ANSWERS], config)
    with libtrl.Trainer(config, rows) as trainer:
        trainer.add_reward("check_sums", check_sums)
        trainer.train(on_event)
        trainer.save()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} MODEL OUTPUT [KEY=VALUE ...]")
    model, output, *pairs = sys.argv[1:]
    if wrong := [pair for pair in pairs if "=" not in pair]:
        sys.exit(f"KEY=VALUE is needed, not {wrong[0]}")
    try:
        show_sums(model, f"{output}/sft")
        reward_sums(f"{output}/sft", output, dict(pair.split("=", 1) for pair in pairs))
    except libtrl.Error as error:
        sys.exit(f"error {error.status}: {error}")
    print(f"saved in {output}")
