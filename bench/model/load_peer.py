# usage: load_peer.py JSON
# What run_ours of load_bench.cc does, by transformers; the same JSON object.
import json
import os
import resource
import sys
import threading
import time

import torch
import transformers


def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


def main():
    work = json.loads(sys.argv[1])
    torch.set_num_threads(work["threads"])
    options = {"dtype": getattr(torch, work["dtype"])}
    path = work["model"]
    if os.path.isfile(path):
        options["gguf_file"], path = os.path.basename(path), os.path.dirname(path)
    load = transformers.AutoModelForCausalLM.from_pretrained
    transformers.AutoConfig.from_pretrained(path, **{k: v for k, v in options.items() if k == "gguf_file"})
    before = most = anonymous()
    done = threading.Event()

    def watch():
        nonlocal most
        while not done.wait(0.001):
            most = max(most, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.monotonic()
    model = load(path, **options)
    # What is only mapped is read when it is first used.
    sums = [p.detach().view(-1)[::1024].sum().item() for p in model.parameters()]
    seconds = time.monotonic() - begin
    done.set()
    watcher.join()
    print()
    print(json.dumps({
        "by": f"transformers {transformers.__version__}, torch {torch.__version__}", "seconds": seconds,
        "parameters": sum(p.numel() for p in model.parameters()),
        "anonymous_growth_bytes": max(most, anonymous()) - before,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "sum": sum(sums)}))


if __name__ == "__main__":
    main()
