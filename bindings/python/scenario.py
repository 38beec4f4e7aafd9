"""The scenario of bindings/scenario.json in Python: scenario.py SCENARIO MODEL OUTPUT

bindings/README.md says what it does and prints; every language prints the same text."""

import json
import os
import sys
import threading
from typing import Any

import libtrl


class Stop(Exception):
    """Raised within an event."""


def line(*parts: object) -> None:
    texts: dict[type, str] = {float: "{:.9f}", bool: "{:d}"}
    print(*(texts.get(type(part), "{}").format(part) for part in parts))


def on_event(event: libtrl.Event) -> int:
    number = event.metrics
    if event.kind == libtrl.EventKind.STEP:
        line("step", int(number["step"]), "of", int(number["max_steps"]), "loss", number["loss"])
        return libtrl.Answer.STOP if number["step"] == 3 else 0
    line("event", int(event.kind), "at", int(number["step"]))
    return 0


def meanwhile(trainer: libtrl.Trainer, action: str) -> threading.Thread:
    """Pauses a trainer, and calls a method of it on another thread a little later, while the next call is held."""
    trainer.pause()
    timer = threading.Timer(0.1, getattr(trainer, action))
    timer.start()
    return timer


def fail(event: libtrl.Event) -> int:
    raise Stop(f"event {int(event.kind)} at {int(event.metrics['step'])}")


def train(config: libtrl.Config, rows: libtrl.Dataset, output: str) -> None:
    with libtrl.Trainer(config, rows, rows) as trainer:
        line("trained", trainer.train(on_event))
        line("eval_loss", trainer.evaluate()["eval_loss"])

        thread = meanwhile(trainer, "resume")
        metrics = trainer.step()
        thread.join()
        assert metrics is not None
        line("step", int(metrics["step"]), "after a pause, loss", metrics["loss"])

        thread = meanwhile(trainer, "cancel")
        try:
            trainer.step()
        except libtrl.CancelledError as error:
            line("cancelled, status", error.status)
        thread.join()
        trainer.resume()

        trainer.save(options={"save.kind": "checkpoint"})
        line("checkpoint", os.path.isfile(os.path.join(output, "checkpoint-4", "trainer_state.json")))

        try:
            trainer.train(fail)
        except Stop as error:
            line("raised again:", error)
        line("trained", trainer.train(on_event))
        line("trained", trainer.train(on_event))
        trainer.save(os.path.join(output, "model"))


def generate(model: str, scenario: dict[str, Any]) -> None:
    with libtrl.Model(model) as opened, opened.generator() as generator:
        pieces: list[str] = []

        def on_token(completion: int, token: int, text: str, log_probability: float) -> None:
            line("token", token)
            pieces.append(text)

        for options in (scenario["generate"], scenario["sample"]):
            pieces.clear()
            completion = generator.generate(scenario["prompt"], options, on_token=on_token)[0]
            line(completion.json)
            line("streamed", "".join(pieces) == completion.text)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        scenario = json.load(file)
    model, output = sys.argv[2:]
    line("version", libtrl.version())

    config = libtrl.Config(scenario["config"])
    config["model_name_or_path"], config["output_dir"] = model, output
    line("learning_rate", config.text("learning_rate"), "from", config.origin("learning_rate"))
    line("weight_decay", config.text("weight_decay"), "from", config.origin("weight_decay"))
    try:
        config[scenario["unknown_key"]] = "1"
    except libtrl.Error as error:
        line("refused", error.key, "status", error.status)

    rows = [{"text": text} for text in scenario["rows"]]
    memory, asked = libtrl.Dataset.from_rows(rows), libtrl.Dataset.from_iterable(rows)
    line("rows in memory", memory.row_count(), "rows of a callback", asked.row_count())
    train(config, memory, output)

    config["resume_from_checkpoint"] = os.path.join(output, "checkpoint-4")
    with libtrl.Trainer(config, asked) as resumed:
        line("resumed at", resumed.describe()["global_step"])
        resumed.train(on_event)
    generate(os.path.join(output, "model"), scenario)


if __name__ == "__main__":
    main()
