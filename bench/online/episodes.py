# PPO of TRL up to 1.12, the last with it. Its loop reports no gradient norms, and only the end of each step. Padding
# is not counted as tokens.
import peer
from given import Given


class Episodes(peer.Clock):
    def on_train_begin(self, *args, **kwargs):
        self.on_step_begin(*args, **kwargs)

    def on_step_end(self, *args, **kwargs):
        super().on_step_end(*args, **kwargs)
        self.on_step_begin(*args, **kwargs)


def replay(module, given, clock):
    """Has the trainer take the given completions: one forward has the logits that a generation keeps."""
    import torch
    write = module.batch_generation

    @torch.no_grad()
    def taken(model, queries, rows, pad, config):
        if given:
            responses = torch.tensor(given.take("completion_ids", len(queries)))
            whole = torch.cat((queries, responses), 1)
            logits = module.forward(model, whole, pad).logits[:, queries.shape[1] - 1:-1] / config.temperature
        else:
            whole, logits = write(model, queries, rows, pad, config)
        clock.tokens[-1] += int((whole != pad).sum())
        return whole, logits

    module.batch_generation = taken


def run(method, work, options):
    import datasets
    import torch
    import transformers
    from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

    dtype, path = getattr(torch, options["dtype"]), options.pop("reward_model_name_or_path")
    reward, value = (transformers.AutoModelForSequenceClassification.from_pretrained(path, num_labels=1, dtype=dtype)
                     for _ in range(2))
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(work["model"], padding_side="left")
    rows = [{"input_ids": tokenizer(row["prompt"])["input_ids"]} for row in peer.rows_of(work["dataset"])]
    clock = Episodes(work["start"])
    replay(ppo_trainer, Given(options), clock)
    transformers.set_seed(42)  # the adapter is drawn from it; the other trainers do so themselves
    trainer = peer.train(
        work, options, PPOTrainer, PPOConfig, clock, model=model, ref_model=None, reward_model=reward,
        value_model=value, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer,
        peft_config=adapter)
    losses = [record["loss/policy_avg"] + trainer.args.vf_coef * record["loss/value_avg"]
              for record in trainer.state.log_history if "loss/policy_avg" in record]
    peer.report(trainer, clock, clock.tokens[:len(clock.seconds)], losses)
