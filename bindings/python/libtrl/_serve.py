"""A server: models over HTTP. Its library is loaded by the first one that is made."""

import os
from typing import Any

from ._api import Status
from ._config import Options, config_of
from ._core import Handle, ask_json, call, create, encode_name, encode_path
from ._data import Tokenizer
from ._generate import Generator
from ._library import serve_lib
from ._model import Model
from ._runtime import Runtime
from ._train import Trainer

_SLICE = 0.1  # seconds in which Ctrl-C is seen


class Server(Handle):
    """Serves models by the protocols of OpenAI, vLLM and TRL, on threads of its own. Closing it stops it without time
    for the requests that run; stop() gives them some."""

    def __init__(self, options: Options = None, *, runtime: Runtime | None = None) -> None:
        pointer = create(serve_lib.trl_server_create, serve_lib.trl_server_destroy, runtime, config_of(options))
        self._own(pointer, serve_lib.trl_server_destroy, runtime)

    def add_model(self, name: str, model: Model, options: Options = None, *, tokenizer: Tokenizer | None = None) -> None:
        """Adds a model, which requests name, with its own tokenizer or another one."""
        call(serve_lib.trl_server_add_model, self, encode_name(name), model, tokenizer, config_of(options))
        self._parents += (model, tokenizer)

    def add_generator(self, name: str, generator: Generator, tokenizer: Tokenizer, options: Options = None) -> None:
        """Adds a generator, which is the server's from start() to the end of stop()."""
        call(serve_lib.trl_server_add_generator, self, encode_name(name), generator, tokenizer, config_of(options))
        self._parents += (generator, tokenizer)

    def add_trainer(self, name: str, trainer: Trainer, options: Options = None) -> None:
        """Adds the model of a trainer: requests are answered with what it trains, with serve_share while it trains."""
        call(serve_lib.trl_server_add_trainer, self, encode_name(name), trainer, config_of(options))
        self._parents += (trainer,)

    def start(self) -> None:
        """Listens, and starts the threads of the server."""
        call(serve_lib.trl_server_start, self)

    def stop(self, seconds: float | None = None) -> None:
        """Stops it when the requests that run have ended, or after this many seconds; None: serve.drain_timeout."""
        call(serve_lib.trl_server_stop, self, -1.0 if seconds is None else seconds)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it has stopped, or for this many seconds; False: it still runs. Raises what made a thread of it
        fail. Log lines come meanwhile, and Ctrl-C ends it."""
        while True:
            part = _SLICE if seconds is None else max(0.0, min(_SLICE, seconds))
            if call(serve_lib.trl_server_wait, self, part) != Status.LATER:
                return True
            if seconds is not None:
                seconds -= part
                if seconds <= 0:
                    return False

    def cancel(self) -> None:
        """Asks it to stop as stop() does, and returns at once; a second time: without time for requests. From any thread,
        and from a signal handler."""
        serve_lib.trl_server_cancel(self._handle)

    def describe(self) -> dict[str, Any]:
        """Its state, address and port, and its models with their adapters and numbers of requests."""
        return ask_json(serve_lib.trl_server_describe, self)  # type: ignore[no-any-return]

    def set_adapter(self, name: str, path: str | os.PathLike[str] | None, *, model: str | None = None) -> None:
        """Gives a model (None: the first one) an adapter that requests name, or a new version of one; without a path
        removes it. Requests that run keep the version that they began with."""
        call(serve_lib.trl_server_set_adapter, self, encode_name(model, "model"), encode_name(name), encode_path(path))

    def sleep(self, model: str | None = None, *, level: int = 1, mode: str | None = None) -> None:
        """Puts a model (None: the first one) to sleep: requests are refused until wake_up()."""
        call(serve_lib.trl_server_sleep, self, encode_name(model, "model"), level, encode_name(mode, "mode"))

    def wake_up(self, model: str | None = None, *, tags: str | None = None) -> None:
        """Wakes a model; tags: what is asked for again, "weights" or "kv_cache", or None for all."""
        call(serve_lib.trl_server_wake_up, self, encode_name(model, "model"), encode_name(tags, "tags"))
