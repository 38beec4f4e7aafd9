"""Serves a model over HTTP from within a program: main.py MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging Face directory or a
GGUF file; keys are those of the groups `serve` and `generate`. The program asks its own server; with --stay it then serves
until Ctrl-C."""

import contextlib
import json
import sys
import urllib.request

import libtrl


def on_log(level: int, component: str, text: str) -> None:
    """Called on this thread, within calls of the server such as start and wait."""
    print(f"{component}: {text}", file=sys.stderr)


def complete(address: str, prompt: str) -> str:
    """Asks as any client does, such as the package openai with the base URL http://ADDRESS/v1."""
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 16}).encode()
    request = urllib.request.Request(f"http://{address}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.load(response)["choices"][0]["text"])


def main(path: str, stay: bool, options: dict[str, str]) -> None:
    with libtrl.Runtime() as runtime:
        runtime.set_log(on_log)
        with libtrl.Model(path, options, runtime=runtime) as model, libtrl.Server(options, runtime=runtime) as server:
            server.add_model("tiny", model)
            server.start()
            print("The kernel ->", complete(server.describe()["address"], "The kernel"))
            server.sleep()  # the memory of keys and values goes back to the system
            print("the model is", server.describe()["models"][0]["state"])
            server.wake_up()
            if stay:
                with contextlib.suppress(KeyboardInterrupt):
                    server.wait()
            server.stop()  # requests that run may end
            print("stopped after", server.describe()["models"][0]["requests"], "requests")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} MODEL [--stay] [KEY=VALUE ...]")
    pairs = [argument for argument in sys.argv[2:] if argument != "--stay"]
    if wrong := [pair for pair in pairs if "=" not in pair]:
        sys.exit(f"KEY=VALUE is needed, not {wrong[0]}")
    try:
        main(sys.argv[1], "--stay" in sys.argv[2:], {"serve.port": "0", **dict(pair.split("=", 1) for pair in pairs)})
    except libtrl.Error as error:
        sys.exit(f"error {error.status}: {error}")
