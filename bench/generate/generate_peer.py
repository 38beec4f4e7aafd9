# usage: generate_peer.py JSON
# Does the work of run_work() in child.cc with transformers or, given a GGUF file, with llama.cpp, and prints the same JSON object.
import json
import resource
import statistics
import sys
import time


def by_transformers(work, prompts, new_tokens):
    import torch
    import transformers

    torch.set_num_threads(work["threads"])
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[work["form"]]
    model = transformers.AutoModelForCausalLM.from_pretrained(work["model"], dtype=dtype)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)

    class Clock(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.times = []

        def put(self, value):
            self.times.append(time.monotonic())

        def end(self):
            pass

    def complete(first, last, most):
        rows = prompts[first:last]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        clock = Clock()  # is given the prompts first
        out = model.generate(ids, attention_mask=mask, max_new_tokens=most, streamer=clock)
        return [row[:count] for row, count in zip(out[:, width:].tolist(), new_tokens[first:last])], clock.times[1:]

    complete(0, 1, 4)
    begin, texts, times = time.monotonic(), [], []
    for first in range(0, len(prompts), work["batch"]):
        last = min(first + work["batch"], len(prompts))
        done, times = complete(first, last, max(new_tokens[first:last]))
        texts += done
    seconds = time.monotonic() - begin
    out = {"by": f"transformers {transformers.__version__}, torch {torch.__version__}", "seconds": seconds,
           "tokens_per_second": sum(map(len, texts)) / seconds, "texts": texts}
    if len(prompts) <= work["batch"]:
        out["seconds_to_first"] = times[0] - begin
        out["decoded_per_second"] = len(prompts) * (len(times) - 1) / (times[-1] - times[0])
    return out


def by_llama(work, prompts, new_tokens):
    import llama_cpp
    import numpy

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(work["gguf"].encode(), llama_cpp.llama_model_default_params())
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def decode(context, rows):
        """rows: (id, position, sequence, whether its logits are wanted)"""
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        status = llama_cpp.llama_decode(context, batch)
        best = [int(numpy.argmax(numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (vocabulary,))))
                for i, row in enumerate(rows) if row[3]]
        llama_cpp.llama_batch_free(batch)
        if status != 0:
            sys.exit("llama_decode failed")
        return best

    # Prompts differ only in their last token: the others are computed once and copied, each into a part of the cache
    # of its own.
    def steps(count):
        shared, room = prompts[0][:-1], len(prompts[0]) + work["steps"] + 2
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_seq_max, options.kv_unified = count * ((room + 255) // 256 * 256), count, False
        options.n_threads = options.n_threads_batch = work["threads"]
        context = llama_cpp.llama_init_from_model(model, options)
        for first in range(0, len(shared), 512):
            decode(context, [(token, first + i, 0, False) for i, token in enumerate(shared[first:first + 512])])
        memory = llama_cpp.llama_get_memory(context)
        for sequence in range(1, count):
            llama_cpp.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
        ids, texts, times = [prompt[-1] for prompt in prompts[:count]], [[] for _ in range(count)], []
        for position in range(len(shared), len(shared) + work["steps"] + 1):
            begin = time.monotonic()
            ids = decode(context, [(token, position, i, True) for i, token in enumerate(ids)])
            times.append(time.monotonic() - begin)
            for text, token in zip(texts, ids):
                text.append(token)
        llama_cpp.llama_free(context)
        return texts, count / statistics.median(times[1:])

    out = {"by": f"llama-cpp-python {llama_cpp.__version__}", "steps": []}
    for count in reversed(work["sequences"]):
        texts, rate = steps(count)
        out.setdefault("texts", texts)
        out["steps"].append({"sequences": count, "tokens_per_second": rate})
    return out


def main():
    work = json.loads(sys.argv[1])
    with open(work["file"]) as file:
        rows = json.load(file)
    out = (by_llama if "gguf" in work else by_transformers)(work, rows["prompts"], rows["new_tokens"])
    out["peak_resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
