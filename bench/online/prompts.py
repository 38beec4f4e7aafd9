# TRL's GRPO, RLOO and Distillation, whose trainers are of one make.
import peer
from given import Given


def run(method, work, options):
    import datasets
    import transformers
    import trl

    trainer_class, config_class = {
        "grpo": (trl.GRPOTrainer, trl.GRPOConfig), "rloo": (trl.RLOOTrainer, trl.RLOOConfig),
        "distillation": (trl.DistillationTrainer, trl.DistillationConfig)}[method]
    given = Given(options)
    signal = {"reward_funcs": [given.points]}
    if method == "distillation":
        signal = {"teacher_model": peer.causal_model(options.pop("teacher_model_name_or_path"), dict(options))}
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)

    class Replayed(trainer_class):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            if not given:
                return super()._generate_single_turn(prompt_ids, *args, **kwargs)
            ids = given.take("completion_ids", len(prompt_ids))
            return (ids, None) if method == "grpo" else ids

    clock, micro = peer.Clock(work["start"]), []
    trainer = peer.train(
        work, options, peer.with_losses(Replayed, micro), config_class, clock, model=model,
        train_dataset=datasets.Dataset.from_list(peer.rows_of(work["dataset"])),
        processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]), peft_config=adapter, **signal)
    totals = [0] + [record["num_tokens"] for record in trainer.state.log_history if "num_tokens" in record]
    tokens = [after - before for before, after in zip(totals, totals[1:])][:len(clock.seconds)]
    peer.report(trainer, clock, tokens, peer.sums(micro, len(clock.seconds)))
