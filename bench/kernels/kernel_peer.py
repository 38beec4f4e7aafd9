# usage: kernel_peer.py JSON
# What one process of head_bench or attention_bench does, by TRL's kernel and plain PyTorch; the same JSON.
import json
import sys
import time

import torch
import torch.nn.functional as F


def tensor(work, name, shape, dtype=torch.bfloat16):
    count = torch.Size(shape).numel()
    return torch.from_file(f"{work['folder']}/{name}", size=count, dtype=dtype).clone().view(shape)


def repeat(seconds, body):  # as repeat() of repeat.h
    body()
    times, start = [], time.monotonic()
    while len(times) < 3 or time.monotonic() - start < seconds:
        begin = time.monotonic()
        body()
        times.append(time.monotonic() - begin)
    return times


def status_bytes(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key + ":"))


def head(work):
    dtype = torch.bfloat16 if work["precision"] == "bf16" else torch.float32
    rows, width, vocab = work["tokens"], work["width"], work["vocab"]
    hidden = tensor(work, "hidden", (rows, width)).to(dtype).requires_grad_()
    weight = tensor(work, "head", (vocab, width)).to(dtype).requires_grad_()
    targets = tensor(work, "targets", (rows,), torch.int32).long()
    if work["side"] == "trl":
        from trl.kernels.chunked_logprob import ChunkedLogProbFunction
        from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE as vocab_chunk

        def loss_of():  # as SFTTrainer calls it
            return -ChunkedLogProbFunction.apply(hidden, weight, None, targets, 1.0, vocab_chunk, None, 1.0,
                                                 ("log_probs", "entropy", "is_top1"))[0].mean()
    elif work["side"] == "plain_fp32_softmax":
        def loss_of():
            return F.cross_entropy((hidden @ weight.T).float(), targets)
    else:
        def loss_of():
            return F.cross_entropy(hidden @ weight.T, targets)

    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = status_bytes("VmRSS")
    out = {}

    def body():
        hidden.grad = weight.grad = None
        loss = loss_of()
        loss.backward()
        out["loss"] = float(loss.detach())

    seconds = repeat(work["seconds"], body)
    gradient = weight.grad.numel() * weight.grad.element_size()
    out["workspace_bytes"] = status_bytes("VmHWM") - before - gradient
    return out | {"seconds": seconds, "grad_hidden": norm(hidden.grad), "grad_head": norm(weight.grad)}


def norm(x):
    return float(x.detach().double().norm())


def attention(work):
    tokens, heads, kv_heads, width = (work[k] for k in ("tokens", "heads", "kv_heads", "head_dim"))

    def leaf(name, count):
        return tensor(work, name, (tokens, count, width)).requires_grad_()

    q, k, v = leaf("q", heads), leaf("k", kv_heads), leaf("v", kv_heads)
    d_out = tensor(work, "d_out", (tokens, heads, width))
    results = {}

    def body(repeated):
        across = [x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
        if repeated:
            across[1:] = [x.repeat_interleave(heads // kv_heads, 1) for x in across[1:]]
        out = F.scaled_dot_product_attention(*across, is_causal=True, dropout_p=work["dropout"],
                                             enable_gqa=not repeated)
        out = out.squeeze(0).transpose(0, 1)
        results["out"] = out
        results["dq"], results["dk"], results["dv"] = torch.autograd.grad(out, (q, k, v), d_out)

    seconds = min((repeat(work["seconds"] / 2, lambda: body(repeated)) for repeated in (False, True)),
                  key=lambda times: sorted(times)[len(times) // 2])
    return {"seconds": seconds, "by": f"torch {torch.__version__}"} | {k: norm(x) for k, x in results.items()}


def main():
    work = json.loads(sys.argv[1])
    torch.set_num_threads(work["threads"])
    print(json.dumps(head(work) if work["what"] == "head" else attention(work)))


if __name__ == "__main__":
    main()
