"""usage: clients.py TRL MODEL
The clients that others use, against `trl vllm-serve`: the openai package, TRL's VLLMClient, and that of TRL 1.9, whose
folder TRL_OLD_TRL names (pip install --no-deps --target FOLDER trl==1.9.0). TRL_CLIENTS_PYTHON: a Python that has openai
and trl; this one if unset. What the server says that it does not have is told as skipped. 77: no client is there."""
import importlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

TOOL = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "When the tide comes.",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
    },
}
CHAT = [{"role": "user", "content": "It opens at noon."}]
PATTERN = "[a-z]{3}"
ran, skipped, failed = [], [], []


class Missing(Exception):
    """The server does not have what was asked for."""


def server_of(program, model):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = [program, "vllm-serve", "--model", model, "--port", str(port), "--served-model-name", "tiny", "--max-logprobs", "100"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(url + "/health")
            return server, url
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    sys.exit("the server does not answer")


def case(name, body):
    try:
        body()
        ran.append(name)
    except Missing as why:
        skipped.append(f"{name}: {why}")
    except Exception as error:  # each case by itself
        text = str(error)
        if re.search(r"\b(501|404)\b|does not have it", text):
            skipped.append(f"{name}: {text[:160]}")
        else:
            failed.append(f"{name}: {type(error).__name__}: {text[:600]}")


def openai_cases(url):
    try:
        import openai
    except ImportError as error:
        skipped.append(f"openai: {error}")
        return
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)

    def models():
        assert [model.id for model in client.models.list()] == ["tiny"]

    def whole():
        got = client.completions.create(model="tiny", prompt="It opens", max_tokens=5, n=2, seed=3, logprobs=2, extra_body={"ignore_eos": True})
        assert len(got.choices) == 2 and got.usage.completion_tokens == 10, got
        assert len(got.choices[0].logprobs.tokens) == 5 and got.choices[0].finish_reason == "length", got

    def ids():
        body = {"return_token_ids": True, "ignore_eos": True}
        got = client.completions.create(model="tiny", prompt=[3, 4, 5], max_tokens=3, extra_body=body)
        assert got.choices[0].prompt_token_ids == [3, 4, 5] and len(got.choices[0].token_ids) == 3, got

    def stream():
        options = {"model": "tiny", "prompt": "It opens", "max_tokens": 8, "temperature": 0}
        parts = list(client.completions.create(stream=True, stream_options={"include_usage": True}, **options))
        text = "".join(part.choices[0].text for part in parts if part.choices)
        assert text == client.completions.create(**options).choices[0].text
        assert parts[-1].usage.prompt_tokens > 0 and not parts[-1].choices

    def chat():
        got = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=4, logprobs=True, top_logprobs=3, n=2)
        message = got.choices[1].message
        assert message.role == "assistant" and isinstance(message.content, str), got
        assert len(got.choices[0].logprobs.content[0].top_logprobs) == 3, got

    def chat_stream():
        parts = list(client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=4, stream=True))
        assert parts[0].choices[0].delta.role == "assistant"
        assert parts[-1].choices[0].finish_reason in ("stop", "length")

    def tools():
        got = client.chat.completions.create(model="tiny", messages=CHAT, tools=[TOOL], tool_choice="auto", max_tokens=8)
        assert got.choices[0].finish_reason in ("stop", "length", "tool_calls"), got
        client.chat.completions.create(model="tiny", messages=CHAT, tools=[TOOL], tool_choice="none", max_tokens=4)

    def regex():
        body = {"structured_outputs": {"regex": PATTERN}}
        got = client.completions.create(model="tiny", prompt="It opens", max_tokens=20, extra_body=body)
        assert re.fullmatch(PATTERN, got.choices[0].text), got

    def schema():
        wanted = {"type": "object", "properties": {"open": {"type": "boolean"}}, "required": ["open"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted}}
        got = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=60, response_format=form)
        assert re.fullmatch(r'\{\s*"open":\s?(true|false)\s*\}', got.choices[0].message.content), got

    def errors():
        for status, options in ((openai.NotFoundError, {"model": "other"}), (openai.BadRequestError, {"max_tokens": 10**6})):
            try:
                client.completions.create(**{"model": "tiny", "prompt": "a", "max_tokens": 2, **options})
            except status as error:
                assert error.body["message"], error
            else:
                raise AssertionError(f"{options} is accepted")

    def closed():
        with client.completions.create(model="tiny", prompt="It opens", max_tokens=200, stream=True) as parts:
            next(iter(parts))
        client.completions.create(model="tiny", prompt="a", max_tokens=1)

    def embeddings():
        try:
            client.embeddings.create(model="tiny", input="a")
        except openai.InternalServerError as error:
            assert error.status_code == 501, error

    for body in (models, whole, ids, stream, chat, chat_stream, tools, regex, schema, errors, closed, embeddings):
        case("openai." + body.__name__, body)


def client_of(folder, url):
    """TRL's client, of the folder or of what is installed, with the test for vLLM patched out."""
    for name in [name for name in sys.modules if name == "trl" or name.startswith("trl.")]:
        del sys.modules[name]
    if folder:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module("trl.generation.vllm_client")
        version = importlib.import_module("trl").__version__
    finally:
        if folder:
            sys.path.remove(folder)
    module.is_vllm_available = lambda *args, **kwargs: True
    port = int(url.rsplit(":", 1)[1])  # on the host that TRL means unless told otherwise
    return module.VLLMClient(server_port=port, connection_timeout=10), version


def trl_cases(label, folder, url):
    try:
        client, version = client_of(folder, url)
    except ImportError as error:
        skipped.append(f"{label}: {error}")
        return
    # The retries of status 500 and 503 would wait for half a minute.
    for adapter in client.session.adapters.values():
        adapter.max_retries.status = 0
    kwargs = {"ignore_eos": True}

    def generate():
        got = client.generate(["It opens", "at noon"], n=2, max_tokens=5, generation_kwargs={"seed": 3, **kwargs})
        assert len(got["prompt_ids"]) == 2 and [len(ids) for ids in got["completion_ids"]] == [5] * 4, got
        assert [len(one) for one in got["logprobs"][0]] == [1] * 5, got
        again = client.generate(got["prompt_ids"], n=2, max_tokens=5, generation_kwargs={"seed": 3, **kwargs})
        assert again["completion_ids"] == got["completion_ids"], "by ids"

    def logprobs():
        for count in (None, 0, 3):
            got = client.generate([[3, 4]], max_tokens=4, logprobs=count, generation_kwargs=kwargs)
            if count is None:
                assert got["logprobs"] is None and got["logprob_token_ids"] is None, got
                continue
            for values, ids, token in zip(got["logprobs"][0], got["logprob_token_ids"][0], got["completion_ids"][0], strict=True):
                assert max(count, 1) <= len(values) <= count + 1 and len(ids) == len(values), got
                assert token in ids and values == sorted(values, reverse=True), got

    def regex():
        got = client.generate(["It opens"], n=3, max_tokens=20, structured_outputs_regex=PATTERN)
        assert len(got["completion_ids"]) == 3, got
        for ids in got["completion_ids"]:
            body = str({"tokens": ids}).replace("'", '"').encode()
            ask = urllib.request.Request(url + "/detokenize", body, {"Content-Type": "application/json"})
            text = urllib.request.urlopen(ask).read().decode()
            assert re.search(r'"prompt":"' + PATTERN + r'(<|")', text), text

    def chat():
        got = client.chat([CHAT, CHAT], n=2, max_tokens=4, tools=[TOOL], generation_kwargs=kwargs)
        assert len(got["prompt_ids"]) == 2 and [len(ids) for ids in got["completion_ids"]] == [4] * 4, got
        plain = client.chat([CHAT], max_tokens=2, chat_template_kwargs={"enable_thinking": False})
        assert len(plain["prompt_ids"][0]) < len(got["prompt_ids"][0]), "tools are rendered"

    def sequence_logprobs():
        sequences, lengths = [[3, 4, 5, 6], [7, 8, 9]], [2, 1]
        forms = [{"use_binary": True}, {"use_binary": False}, {"chunk_size": 1}] if folder else [{}, {"chunk_size": 1}]
        first = None
        for form in forms:
            got = client.get_sequence_logprobs(sequences, lengths, top_logprobs=5, **form)
            assert [len(one) for one in got["logprobs"]] == [2, 2], got
            for values, ids in zip(got["logprobs"][0], got["logprob_token_ids"][0], strict=True):
                assert len(values) >= 5 and len(ids) == len(values) and values[:5] == sorted(values[:5], reverse=True), got
            if "actual_logprobs" in got:
                assert [token for (token,) in got["actual_token_ids"][0]] == [5, 6], got
                assert all(math.isinf(value) or value <= 0 for (value,) in got["actual_logprobs"][0]), got
            first = first or got
            assert all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(got["logprobs"][1][0][:5], first["logprobs"][1][0][:5])), form

    def world():
        if folder:
            size = urllib.request.urlopen(url + "/get_world_size/").read()
            assert size.replace(b" ", b"") == b'{"world_size":1}', size
        else:
            assert client.get_world_size() == 1
            assert client.get_server_info()["model_config"]["logprobs_mode"] == "processed_logprobs"

    def prefix_cache():
        client.reset_prefix_cache()

    for body in (generate, logprobs, regex, chat, sequence_logprobs, world, prefix_cache):
        case(f"trl {version}.{body.__name__}", body)


def main(program, model):
    python = os.environ.pop("TRL_CLIENTS_PYTHON", "")
    if python:
        os.execv(python, [python, *sys.argv])
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    server, url = server_of(program, model)
    try:
        openai_cases(url)
        trl_cases("trl", "", url)
        old = os.environ.get("TRL_OLD_TRL", "")
        if old:
            trl_cases("trl 1.9", old, url)
        else:
            skipped.append("trl 1.9: TRL_OLD_TRL names no folder")
    finally:
        server.send_signal(signal.SIGTERM)
        status = server.wait(30)
    if status != 0:
        failed.append(f"the server ended with {status}")
    for line in skipped:
        print("skipped", line)
    for line in failed:
        print("FAILED", line)
    print(f"{len(ran)} passed, {len(failed)} failed, {len(skipped)} skipped")
    if not ran and not failed:
        print("no Python with openai or trl: TRL_CLIENTS_PYTHON names none")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
