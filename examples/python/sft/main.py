"""Fine-tunes a model on a JSONL file and shows what it writes before and after: main.py MODEL ROWS OUTPUT [KEY=VALUE ...]
MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may follow."""

import sys

import libtrl

PROMPT = "The kernel"


def on_log(level: int, component: str, text: str) -> None:
    if level >= libtrl.LogLevel.WARNING:
        print(f"{component}: {text}", file=sys.stderr)


def on_event(event: libtrl.Event) -> None:
    """Called on this thread, between the steps. Answer.STOP, SAVE and EVALUATE as results would ask for more."""
    if event.kind == libtrl.EventKind.STEP:
        number = event.metrics
        print(f"step {number['step']:.0f} of {number['max_steps']:.0f}: loss {number['loss']:.4f}")


def print_completion(trainer: libtrl.Trainer, config: libtrl.Config) -> None:
    with trainer.model().generator() as generator:
        print(f"{PROMPT} ->", end="")
        for _, text in generator.stream(PROMPT, config):
            print(text, end="", flush=True)
        print()


def main(model: str, rows: str, output: str, *pairs: str) -> None:
    config = libtrl.Config(
        model_name_or_path=model, output_dir=output, learning_rate=1e-3, per_device_train_batch_size=4, max_steps=10,
        save_strategy="no",
    )
    config["generate.max_new_tokens"] = 16
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            sys.exit(f"KEY=VALUE is needed, not {pair}")
        config[key] = value
    with libtrl.Runtime(config) as runtime:
        runtime.set_log(on_log)
        dataset = libtrl.Dataset(rows, config, runtime=runtime)
        with libtrl.Trainer(config, dataset, runtime=runtime) as trainer:
            print_completion(trainer, config)
            trainer.train(on_event)
            trainer.save()
            print_completion(trainer, config)
    print(f"saved in {output}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(f"usage: {sys.argv[0]} MODEL ROWS OUTPUT [KEY=VALUE ...]")
    try:
        main(*sys.argv[1:])
    except libtrl.Error as error:
        sys.exit(f"error {error.status}: {error}")
