# usage: peer_of_method.py JSON
# TRL's trainer of a method that writes completions. With replay_rollouts it takes completions and rewards from
# the file, in its order.
import importlib
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "train"))
import peer  # noqa: E402

MODULES = {"grpo": "prompts", "rloo": "prompts", "distillation": "prompts", "online_dpo": "pairs", "gkd": "answers",
           "ppo": "episodes"}


def main():
    work, options = peer.begin()
    method = options.pop("method")
    importlib.import_module(MODULES[method]).run(method, work, options)


if __name__ == "__main__":
    main()
