# The shared part of the peers: an argument in JSON, what run_ours of sft_run.cc does by one of TRL's trainers
# with the same options, and the same JSON object.
import json
import resource
import sys
import tempfile
import time

import transformers


def begin():
    """Returns the work and its options, without those that are not TRL's."""
    import torch
    work = json.loads(sys.argv[1])
    transformers.utils.logging.disable_progress_bar()
    options = dict(work["options"])
    torch.set_num_threads(options.pop("runtime.threads"))
    return work, options


def adapter_of(options, task="CAUSAL_LM"):
    if not options.pop("use_peft", False):
        return None
    import peft
    return peft.LoraConfig(
        r=options.pop("lora_r"), lora_alpha=options.pop("lora_alpha"), lora_dropout=options.pop("lora_dropout"),
        target_modules=options.pop("lora_target_modules"), task_type=task)


def causal_model(path, options):
    import torch
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, options.pop("dtype")))


def rows_of(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Clock(transformers.TrainerCallback):
    """Times steps; tokens has the counted tokens of each."""

    def __init__(self, start):
        self.start, self.seconds, self.tokens, self.first = start, [], [], None

    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = time.monotonic()
        self.tokens.append(0)

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds.append(time.monotonic() - self.begin)
        self.first = self.first or time.monotonic() - self.start


def with_losses(trainer_class, micro, count=lambda inputs: None):
    """Returns the class with the losses of micro-batches in a list: those that are logged are rounded."""

    class Unrounded(trainer_class):
        def compute_loss(self, model, inputs, *args, **kwargs):
            count(inputs)
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            micro.append(float((loss[0] if isinstance(loss, tuple) else loss).detach()))
            return loss

    return Unrounded


def train(work, options, trainer_class, config_class, clock, **parts):
    """Trains as run_ours does, and returns the trainer."""
    with tempfile.TemporaryDirectory() as output:
        arguments = config_class(
            output_dir=output, max_steps=work["steps"], use_cpu=True, report_to=[], logging_steps=1,
            save_strategy="no", disable_tqdm=True, **options)
        trainer = trainer_class(args=arguments, callbacks=[clock], **parts)
        trainer.train()
    return trainer


def report(trainer, clock, tokens, losses):
    import torch
    import trl
    line = {
        "by": f"TRL {trl.__version__}, torch {torch.__version__}",
        "tokens": tokens, "seconds": clock.seconds, "losses": losses, "first_step_seconds": clock.first,
        "attention": trainer.model.config._attn_implementation,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    norms = [record["grad_norm"] for record in trainer.state.log_history if "grad_norm" in record]
    print()
    print(json.dumps({**line, "grad_norms": norms} if norms else line))


def sums(micro, steps):
    """Returns the sum of the micro-batches' losses of each step."""
    each = len(micro) // steps
    return [sum(micro[i * each:(i + 1) * each]) for i in range(steps)]
