# TRL's GKD. With lmbda 0 it learns on the answers of the rows, so nothing has to be replaced. Tokens are sums of
# attention masks.
import peer


def run(method, work, options):
    import datasets
    import transformers
    from trl.experimental.gkd import GKDConfig, GKDTrainer

    teacher = peer.causal_model(options.pop("teacher_model_name_or_path"), dict(options))
    model = peer.causal_model(work["model"], options)
    adapter = peer.adapter_of(options)
    clock, micro = peer.Clock(work["start"]), []

    def count(inputs):
        clock.tokens[-1] += int(inputs["attention_mask"].sum())

    trainer = peer.train(
        work, options, peer.with_losses(GKDTrainer, micro, count), GKDConfig, clock, model=model, teacher_model=teacher,
        train_dataset=datasets.Dataset.from_list(peer.rows_of(work["dataset"])),
        processing_class=transformers.AutoTokenizer.from_pretrained(work["model"]), peft_config=adapter)
    peer.report(trainer, clock, clock.tokens, peer.sums(micro, len(clock.seconds)))
