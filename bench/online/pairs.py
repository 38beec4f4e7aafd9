# TRL's Online DPO. Tokens are sums of masks.
import peer
from given import Given


def run(method, work, options):
    import datasets
    import torch
    import transformers
    from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

    given = Given(options)
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)
    clock, losses = peer.Clock(work["start"]), []

    def padded(rows, value):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)

    class Replayed(OnlineDPOTrainer):
        def _generate(self, model, prompts, images=None):
            if given:
                inputs = self.processing_class(
                    text=prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
                ids = given.take("completion_ids", 2 * len(prompts))
                masks = [[1] * len(row) for row in ids]
                made = (inputs["input_ids"].repeat(2, 1), inputs["attention_mask"].repeat(2, 1),
                        padded(ids, self.processing_class.pad_token_id), padded(masks, 0), None)
            else:
                made = super()._generate(model, prompts, images)
            clock.tokens[-1] += int(made[1].sum() + made[3].sum())
            return made

        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            losses.append(float(loss))
            return loss

    trainer = peer.train(
        work, options, Replayed, OnlineDPOConfig, clock, model=model, reward_funcs=[given.points],
        train_dataset=datasets.Dataset.from_list(peer.rows_of(work["dataset"])),
        processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]), peft_config=adapter)
    peer.report(trainer, clock, clock.tokens, peer.sums(losses, len(clock.seconds)))
