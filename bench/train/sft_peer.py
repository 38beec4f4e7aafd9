# usage: sft_peer.py JSON
# TRL's SFTTrainer.
import json

import peer


def main():
    import datasets
    import transformers
    import trl

    work, options = peer.begin()
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)
    dataset = datasets.Dataset.from_list(peer.rows_of(work["dataset"]))
    if work["columns"]:
        dataset = dataset.rename_columns(json.loads(work["columns"]))
    clock, micro = peer.Clock(work["start"]), []

    def count(inputs):
        mask = inputs.get("attention_mask")
        clock.tokens[-1] += int(inputs["input_ids"].numel() if mask is None else mask.sum())

    trainer = peer.train(
        work, options, peer.with_losses(trl.SFTTrainer, micro, count), trl.SFTConfig, clock, model=model,
        train_dataset=dataset, processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]),
        peft_config=adapter)
    peer.report(trainer, clock, clock.tokens, peer.sums(micro, len(clock.seconds)))


if __name__ == "__main__":
    main()
