"""A Python process ends while a daemon thread trains through ctypes: python exit.py LIBRARY SOURCE ROUNDS SPAN_MS
OUTPUT.

Each round is a process of its own, and the moments are spread over SPAN_MS. The callback makes the thread come back
into the interpreter, also while that is ending."""

import ctypes
import os
import subprocess
import sys
import threading
import time


def train(trl, model, output):
    ok, keep = 0, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)(lambda *_: 0)
    rows = b'{"text": "one two three four five six seven"}\n' * 64
    config, nothing = ctypes.c_void_p(), ctypes.c_void_p()
    assert trl.trl_config_create(ctypes.byref(config), None) == ok
    settings = {"model_name_or_path": model, "output_dir": output, "max_steps": "100000", "report_to": "none",
                "save_strategy": "no", "logging_steps": "1", "per_device_train_batch_size": "64"}
    for key, value in settings.items():
        assert trl.trl_config_set(config, key.encode(), value.encode(), None) == ok
    while True:
        dataset, trainer = ctypes.c_void_p(), ctypes.c_void_p()
        trl.trl_dataset_from_buffer(None, b"jsonl", rows, ctypes.c_size_t(len(rows)), None, ctypes.byref(dataset), None)
        trl.trl_trainer_create(None, config, dataset, None, ctypes.byref(trainer), None)
        trl.trl_trainer_train(trainer, keep, nothing, None)
        trl.trl_trainer_destroy(trainer)
        trl.trl_dataset_destroy(dataset)


def main():
    library, source, rounds, span, output = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
    if rounds == 0:
        trl = ctypes.CDLL(library)
        for name in ("trl_trainer_destroy", "trl_dataset_destroy"):
            getattr(trl, name).argtypes = [ctypes.c_void_p]
        threading.Thread(target=train, args=(trl, os.path.join(source, "tests/golden/models/qwen2"), output), daemon=True).start()
        time.sleep(span / 1000)
        return 0
    bad = 0
    for i in range(rounds):
        at = span * (i * 0.6180339887 % 1)
        done = subprocess.run([sys.executable, __file__, library, source, "0", str(at), output], timeout=60)
        if done.returncode != 0:
            print(f"after {at:.0f} ms: ends with {done.returncode}")
            bad += 1
    print(f"python: {bad} of {rounds} rounds failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
