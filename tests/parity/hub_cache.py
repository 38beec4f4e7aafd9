"""hub_cache.py TRL SERVER MODEL: the command and huggingface_hub share one cache.

A hub on this machine (tests/cli/hub/server.cc) serves a copy of MODEL and a few rows. Each of the two downloads
into a cache, and the other must find everything there without asking for a file again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRL, SERVER, MODEL = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
TRL = os.path.abspath(TRL)
IGNORED = ["*.bin"]


def start_hub(folder: Path):
    main = folder / "root/models/org/tiny/main"
    shutil.copytree(MODEL, main)
    (main / "pytorch_model.bin").write_bytes(b"never to be taken")
    rows = folder / "root/datasets/org/rows/main/data"
    rows.mkdir(parents=True)
    rows.joinpath("train.jsonl").write_text('{"text": "a line"}\n' * 4)
    log = folder / "log"
    log.touch()
    process = subprocess.Popen([SERVER, folder / "root", folder / "ports", log])
    while not (folder / "ports").exists():
        time.sleep(0.05)
    port = (folder / "ports").read_text().split()[0]
    return process, f"http://127.0.0.1:{port}", log


def trl(*arguments, code=0):
    done = subprocess.run([TRL, *arguments], capture_output=True, text=True)
    assert done.returncode == code, f"trl {arguments}: {done.returncode}\n{done.stderr}"
    return done.stdout.strip()


def hub(script: str, cache: Path) -> str:
    """What a Python of its own prints: huggingface_hub reads its variables once."""
    environment = {**os.environ, "HF_HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", "from huggingface_hub import *\n" + script], capture_output=True,
                          text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def layout(cache: Path) -> dict:
    """Every path below the cache: what a link points at, or a file's bytes."""
    found = {}
    for path in sorted(cache.rglob("*")):
        name = str(path.relative_to(cache))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = ("file", path.read_bytes())
    return found


def file_requests(log: Path) -> int:
    return sum("/bytes/" in line or ("/resolve/" in line and " GET " in line) for line in log.read_text().splitlines())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process, endpoint, log = start_hub(folder)
        try:
            os.environ.update(HF_ENDPOINT=endpoint, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1",
                              HF_HUB_DISABLE_UPDATE_CHECK="1")
            for variable in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRL_HUB", "HF_HUB_DISABLE_SYMLINKS"):
                os.environ.pop(variable, None)
            compare(folder, log)
        finally:
            process.terminate()
            process.wait()
    print("either reads what the other wrote")


def compare(folder: Path, log: Path):
    ours, theirs, single = folder / "ours", folder / "theirs", folder / "single"

    # what the command wrote, read by huggingface_hub
    os.environ["HF_HOME"] = str(ours)
    path = trl("download", "org/tiny")
    rows = trl("download", "org/rows", "--repo_type", "dataset")
    before = file_requests(log)
    assert hub(f"print(snapshot_download('org/tiny', local_files_only=True, ignore_patterns={IGNORED}))", ours) == path
    assert hub(f"print(snapshot_download('org/tiny', ignore_patterns={IGNORED}))", ours) == path
    assert hub("print(hf_hub_download('org/tiny', 'model.safetensors', local_files_only=True))", ours) == path + "/model.safetensors"
    assert hub("print(hf_hub_download('org/tiny', 'config.json'))", ours) == path + "/config.json"
    assert hub("print(snapshot_download('org/rows', repo_type='dataset', local_files_only=True))", ours) == rows
    assert hub("info = scan_cache_dir(); print(len(info.repos), len(info.warnings))", ours) == "2 0"
    assert file_requests(log) == before, "huggingface_hub downloaded what the command had"

    # what huggingface_hub wrote, read by the command
    path = hub(f"print(snapshot_download('org/tiny', ignore_patterns={IGNORED}))", theirs)
    hub("snapshot_download('org/rows', repo_type='dataset')", theirs)
    os.environ["HF_HOME"] = str(theirs)
    before = log.read_text()
    assert trl("download", "org/tiny", "--hub", "off") == path
    trl("tokenize", "--model_name_or_path", "org/tiny", "--text", "hi")
    assert log.read_text() == before, "the command asked for what huggingface_hub had"
    assert trl("download", "org/tiny") == path
    assert file_requests(log) == sum("/bytes/" in l or ("/resolve/" in l and " GET " in l) for l in before.splitlines())

    # one file at a time, as transformers downloads them: nobody wrote down which files there are
    for file in sorted(os.listdir(MODEL)):
        hub(f"hf_hub_download('org/tiny', '{file}')", single)
    os.environ["HF_HOME"] = str(single)
    before = log.read_text()
    assert trl("download", "org/tiny", "--hub", "off").endswith(os.path.basename(path))
    assert log.read_text() == before

    # both caches are alike to the byte
    mine, other = layout(ours / "hub"), layout(theirs / "hub")
    for cache in (mine, other):
        for name in list(cache):
            if "/trees/" in "/" + name:  # JSON, compared as such
                cache[name] = json.loads(cache[name][1])
    assert mine == other, (sorted(mine), sorted(other))


if __name__ == "__main__":
    main()
