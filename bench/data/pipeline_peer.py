# usage: pipeline_peer.py MODEL_DIR ROWS COLUMNS KIND THREADS MAX_LENGTH START [digest]
# What pipeline_child.cc does, by datasets and TRL's SFTTrainer; the same JSON object. The model is one of a
# few weights, so that what is measured is the data.
import json
import sys
import tempfile
import time


def main():
    model_dir, rows, columns, kind, threads, max_length, start = sys.argv[1:8]
    import datasets
    import torch
    import transformers
    import trl

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1))
    streaming, packing = kind == "streaming", kind in ("cold", "warm")
    begin = time.monotonic()
    dataset = datasets.load_dataset("json", data_files=rows, split="train", streaming=streaming)
    dataset = dataset.rename_columns(json.loads(columns))
    with tempfile.TemporaryDirectory() as output:
        arguments = trl.SFTConfig(
            output_dir=output, max_length=int(max_length), packing=packing, use_cpu=True, bf16=False,
            report_to=[], per_device_train_batch_size=8, max_steps=1 if streaming else -1,
            dataset_num_proc=None if streaming else int(threads))
        trainer = trl.SFTTrainer(model=model, args=arguments, train_dataset=dataset,
                                 processing_class=tokenizer)
    prepared = time.monotonic()
    next(iter(trainer.get_train_dataloader()))
    out = {"prepare_seconds": prepared - begin, "first_batch_seconds": time.monotonic() - float(start),
           "versions": {m.__name__: m.__version__ for m in (trl, datasets, transformers, torch)}}
    if "digest" in sys.argv[8:]:
        out.update(digest_of(trainer.train_dataset.with_format(None)))
    print(json.dumps(out))


def digest_of(rows):
    import numpy
    import xxhash

    hashed, tokens = xxhash.xxh3_64(), 0
    for row in rows:
        for column in ("input_ids", "labels", "seq_lengths"):
            hashed.update(numpy.array(row[column], dtype=numpy.int32).tobytes())
        tokens += len(row["input_ids"])
    return {"tokens": tokens, "prepared_rows": len(rows), "digest": hashed.hexdigest()}


if __name__ == "__main__":
    main()
