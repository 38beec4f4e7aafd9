# usage: online_peer.py JSON
# TRL's GRPOTrainer. With replay_rollouts it takes completions and rewards from the file, in its order.
import peer


class Given:
    """The lines of a file of completions, read in order."""

    def __init__(self, rows):
        self.rows, self.places = rows, {"completion_ids": 0, "rewards": 0}

    def take(self, name, count):
        begin = self.places[name]
        self.places[name] += count
        return [row[name] for row in self.rows[begin:begin + count]]


def main():
    import datasets
    import transformers
    import trl

    work, options = peer.begin()
    options.pop("method")
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)
    replay = options.pop("replay_rollouts", None)
    given = Given(peer.rows_of(replay)) if replay else None
    options.pop("reward_funcs", None)

    def points(completions, **columns):
        if given is None:
            return [0.0] * len(completions)
        return [float(rewards["points"]) for rewards in given.take("rewards", len(completions))]

    class Replayed(trl.GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            if given is None:
                return super()._generate_single_turn(prompt_ids, *args, **kwargs)
            return given.take("completion_ids", len(prompt_ids)), None

    clock, micro = peer.Clock(work["start"]), []
    trainer = peer.train(
        work, options, peer.with_losses(Replayed, micro), trl.GRPOConfig, clock, model=model, reward_funcs=[points],
        train_dataset=datasets.Dataset.from_list(peer.rows_of(work["dataset"])),
        processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]), peft_config=adapter)
    totals = [0] + [record["num_tokens"] for record in trainer.state.log_history if "num_tokens" in record]
    tokens = [after - before for before, after in zip(totals, totals[1:])][:len(clock.seconds)]
    peer.report(trainer, clock, tokens, peer.sums(micro, len(clock.seconds)))


if __name__ == "__main__":
    main()
