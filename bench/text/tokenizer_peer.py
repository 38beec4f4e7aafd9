# usage: tokenizer_peer.py JSON
# What one process of tokenizer_bench does, by Hugging Face's tokenizers; the same JSON.
import array
import json
import os
import resource
import sys
import time
import zlib

work = json.loads(sys.argv[1])
os.environ["RAYON_NUM_THREADS"] = str(work["threads"])
os.environ["TOKENIZERS_PARALLELISM"] = "true" if work["threads"] > 1 else "false"
from tokenizers import Tokenizer


def repeat(body):  # as repeat() of repeat.h
    body()
    times, start = [], time.monotonic()
    while len(times) < 3 or time.monotonic() - start < work["seconds"]:
        begin = time.monotonic()
        body()
        times.append(time.monotonic() - begin)
    return times


tokenizer = Tokenizer.from_file(work["folder"] + "/tokenizer.json")
with open(work["text"], encoding="utf-8", newline="") as file:
    text = file.read()
lines = text.removesuffix("\n").split("\n") if work["lines"] else [text]
encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)  # without offsets, where it can
out = {"seconds": repeat(lambda: encode(lines * work["threads"]))}
out["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
rows = [row.ids for row in encode(lines)]
checksum = 0
for row in rows:
    checksum = zlib.crc32(array.array("i", row).tobytes(), checksum)
out["checksum"] = checksum
if work["decode"]:
    out["decode_seconds"] = repeat(lambda: [tokenizer.decode(row, skip_special_tokens=True) for row in rows])
print(json.dumps(out))
