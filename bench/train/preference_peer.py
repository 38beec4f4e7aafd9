# usage: preference_peer.py JSON
# TRL's trainer of method dpo, kto or reward. Tokens are sums of attention masks. The reference is computed in
# every step.
import peer


def model_of(path, method, options):
    if method != "reward":
        return peer.causal_model(path, options)
    import torch
    import transformers
    transformers.set_seed(42)  # the new head is drawn from it
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        path, num_labels=1, dtype=getattr(torch, options.pop("dtype")))


def main():
    import datasets
    import transformers
    import trl

    work, options = peer.begin()
    method = options.pop("method")
    trainer_class = {"dpo": trl.DPOTrainer, "kto": trl.KTOTrainer, "reward": trl.RewardTrainer}[method]
    config_class = {"dpo": trl.DPOConfig, "kto": trl.KTOConfig, "reward": trl.RewardConfig}[method]
    adapter = peer.adapter_of(options, "SEQ_CLS" if method == "reward" else "CAUSAL_LM")
    model = model_of(work["model"], method, options)
    clock, micro = peer.Clock(work["start"]), []

    def count(inputs):
        # KTO's prompts with completions of other rows are not counted, as in num_tokens.
        masks = [value for name, value in inputs.items()
                 if name.endswith("attention_mask") and not name.startswith("KL_")]
        clock.tokens[-1] += int(sum(mask.sum() for mask in masks))

    trainer = peer.train(
        work, options, peer.with_losses(trainer_class, micro, count), config_class, clock, model=model,
        train_dataset=datasets.Dataset.from_list(peer.rows_of(work["dataset"])),
        processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]), peft_config=adapter)
    accumulation = len(micro) // len(clock.seconds)
    losses = [loss / accumulation for loss in peer.sums(micro, len(clock.seconds))]
    peer.report(trainer, clock, clock.tokens, losses)


if __name__ == "__main__":
    main()
