# usage: decode_peer.py JSON
# What run_ours of decode_bench.cc does, by transformers or by llama.cpp; the same JSON object.
import json
import resource
import sys
import time


def by_transformers(work):
    import torch
    import transformers

    torch.set_num_threads(work["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(work["model"], dtype=torch.bfloat16)

    class Clock(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.ids, self.times = [], []

        def put(self, value):
            self.times.append(time.monotonic())
            self.ids.extend(value.flatten().tolist())

        def end(self):
            pass

    clock = Clock()
    model.generate(torch.tensor([work["prompt"]]), attention_mask=torch.ones(1, len(work["prompt"]), dtype=torch.long),
                   max_new_tokens=work["tokens"], do_sample=False, repetition_penalty=1.0, streamer=clock)
    # The streamer is given the prompt first.
    return (f"transformers {transformers.__version__}, torch {torch.__version__}",
            clock.ids[len(work["prompt"]):], clock.times[1:])


def by_llama(work):
    import llama_cpp

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(work["gguf"].encode(), llama_cpp.llama_model_default_params())
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = len(work["prompt"]) + work["tokens"]
    options.n_threads = options.n_threads_batch = work["threads"]
    context = llama_cpp.llama_init_from_model(model, options)
    sampler = llama_cpp.llama_sampler_init_greedy()
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    ids, times, batch = [], [], work["prompt"]
    while len(ids) < work["tokens"]:
        tokens = (llama_cpp.llama_token * len(batch))(*batch)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(batch))) != 0:
            sys.exit("llama_decode failed")
        batch = [llama_cpp.llama_sampler_sample(sampler, context, -1)]
        ids += batch
        times.append(time.monotonic())
        if llama_cpp.llama_vocab_is_eog(vocabulary, batch[0]):
            break
    return f"llama-cpp-python {llama_cpp.__version__}", ids, times


def main():
    work = json.loads(sys.argv[1])
    by, ids, times = (by_llama if work["side"].startswith("llama") else by_transformers)(work)
    print()
    print(json.dumps({
        "by": by, "ids": ids, "tokens_per_second": (len(times) - 1) / (times[-1] - times[0]),
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
