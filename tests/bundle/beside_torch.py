"""A bundled engine trains beside another libtorch in one process, in either order, with the losses that each has alone:
PYTHON beside_torch.py LIBRARY SOURCE OUTPUT, where PYTHON has torch."""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

# seen: all of torch's names are seen by the whole process, as they are where a program links it
ORDERS = ("trl", "torch", "trl torch", "torch trl", "trl torch trl torch", "seen torch trl", "trl seen torch trl")


def train_trl(library, source, output):
    trl = ctypes.CDLL(library)
    for name in ("trl_trainer_destroy", "trl_dataset_destroy", "trl_config_destroy"):
        getattr(trl, name).argtypes = [ctypes.c_void_p]
    rows = b'{"text": "one two three four five six seven"}\n' * 64
    output = tempfile.mkdtemp(dir=output)
    config, dataset, trainer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()

    def check(status):
        if status < 0:
            sys.exit(f"libtrl: status {status}")

    check(trl.trl_config_create(ctypes.byref(config), None))
    settings = {"model_name_or_path": os.path.join(source, "tests/golden/models/qwen2"), "output_dir": output,
                "max_steps": "4", "report_to": "none", "logging_steps": "1", "learning_rate": "0.01"}
    for key, value in settings.items():
        check(trl.trl_config_set(config, key.encode(), value.encode(), None))
    check(trl.trl_dataset_from_buffer(None, b"jsonl", rows, ctypes.c_size_t(len(rows)), None, ctypes.byref(dataset), None))
    check(trl.trl_trainer_create(None, config, dataset, None, ctypes.byref(trainer), None))
    check(trl.trl_trainer_train(trainer, None, None, None))
    trl.trl_trainer_destroy(trainer)
    trl.trl_dataset_destroy(dataset)
    trl.trl_config_destroy(config)
    with open(os.path.join(output, "trainer_state.json"), encoding="utf-8") as state:
        return [record["loss"] for record in json.load(state)["log_history"] if "loss" in record]


def train_torch():
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True),
                                torch.nn.Linear(64, 100))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    rows = torch.randint(0, 100, (16, 65))
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.linalg.svd(torch.randn(64, 64))
    try:
        torch.zeros(2, 3) @ torch.zeros(2, 3)
    except RuntimeError as error:
        assert "shapes" in str(error)
    else:
        sys.exit("torch: no error")
    return losses


def main():
    library, source, output = sys.argv[1:4]
    if len(sys.argv) > 4:
        for guest in sys.argv[4].split():
            if guest == "seen":
                sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
                continue
            losses = train_trl(library, source, output) if guest == "trl" else train_torch()
            print(json.dumps({guest: losses}), flush=True)
        return 0
    found = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"{sys.executable} has no torch")
        return 77
    alone, failed = {}, False
    for order in ORDERS:
        done = subprocess.run([sys.executable, __file__, library, source, output, order], capture_output=True, text=True,
                              timeout=600)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        good = done.returncode == 0 and len(said) == len(order.replace("seen ", "").split())
        for guest, losses in (item for one in said for item in one.items()):
            good = good and len(losses) == 4 and losses == alone.setdefault(guest, losses)
        print(f"{order}: {'as alone' if good else 'differs'}: {done.stdout.strip()}{done.stderr.strip()}; ends with {done.returncode}")
        failed = failed or not good
    print(f"torch {found.stdout.strip()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
