"""Answers requests while it learns from corrections: main.py MODEL OUTPUT
MODEL is a Hugging Face directory or a GGUF file; OUTPUT gets the adapter."""

import sys
import threading
from collections.abc import Iterator

import libtrl

QUESTION, ANSWER = "The kernel answers the", " driver at noon"
SETTINGS = {
    "dtype": "float32", "bf16": False, "use_peft": True, "lora_r": 8, "lora_target_modules": "all-linear",
    "serve_share": 0.5, "serve_swap": "token", "dataset_streaming": True, "train_sampling_strategy": "sequential",
    "learning_rate": 1e-2, "lr_scheduler_type": "constant", "max_steps": 2000, "per_device_train_batch_size": 16,
    "save_strategy": "no", "report_to": "none", "logging_strategy": "no", "generate.max_new_tokens": 8,
}
told = [{"prompt": "The scheduler", "completion": " picks a task."}]  # the rows of the run


def rows() -> Iterator[dict[str, str]]:
    """The run reads its rows from here, about a thousand ahead: all that was told so far, again and again."""
    while True:
        yield from tuple(told)


def ask(generator: libtrl.Generator, options: libtrl.Config) -> tuple[int, str]:
    """One request, token by token; the steps of the trainer go on meanwhile. Returns the step whose adapter wrote the
    last token, and the text."""
    number = generator.add(QUESTION, options)
    while generator.step():
        pass
    [done] = generator.take(number)
    return done.details["weights"]["last_version"], done.text


def main(path: str, output: str) -> None:
    config = libtrl.Config(SETTINGS, model_name_or_path=path, output_dir=output)
    failed: list[libtrl.Error] = []
    with libtrl.Trainer(config, libtrl.Dataset.from_iterable(rows, config)) as trainer:

        def train() -> None:
            try:
                trainer.train()
            except libtrl.CancelledError:  # the answer is right, and nothing is left to learn
                pass
            except libtrl.Error as error:
                failed.append(error)

        thread = threading.Thread(target=train)
        with trainer.model() as model, model.generator() as generator:
            thread.start()
            asked, last = 0, ""
            try:
                while not last.startswith(ANSWER) and thread.is_alive():
                    if asked == 20:
                        print(f"corrected: {QUESTION}{ANSWER}")
                        told.append({"prompt": QUESTION, "completion": ANSWER})
                    step, text = ask(generator, config)
                    if text != last:
                        print(f"step {step}: {QUESTION}{text}")
                    last, asked = text, asked + 1
            finally:
                trainer.cancel()
                thread.join()
        if failed:
            raise failed[0]
        if not last.startswith(ANSWER):
            sys.exit("the run ended before it was learned")
        trainer.save()
    print(f"{asked} requests, none lost; the adapter is in {output}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} MODEL OUTPUT")
    try:
        main(*sys.argv[1:])
    except libtrl.Error as error:
        sys.exit(f"error {error.status}: {error}")
