# usage: online_peer.py JSON
# TRL's trainer of a method that writes completions. With replay_rollouts it takes completions and rewards from
# the file, in its order.
import importlib

import peer

MODULES = {
    "grpo": "online_peer_prompts", "rloo": "online_peer_prompts", "distillation": "online_peer_prompts",
    "online_dpo": "online_peer_pairs", "gkd": "online_peer_answers", "ppo": "online_peer_episodes"}


def main():
    work, options = peer.begin()
    method = options.pop("method")
    importlib.import_module(MODULES[method]).run(method, work, options)


if __name__ == "__main__":
    main()
