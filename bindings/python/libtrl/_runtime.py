"""The threads, memory limit, log and progress of what is created with it."""

import ctypes
from collections.abc import Callable
from typing import Any

from ._config import Options, config_of
from ._core import Handle, ask_json, call, create, forget, keep, no_function, number_of, text_at, trampoline
from ._library import lib

LogFunction = Callable[[int, str, str], object]
ProgressFunction = Callable[[str, int, int], int | bool | None]


@trampoline("trl_log_fn", failed=None)
def _log(host: LogFunction, level: int, component: int, text: int, size: int) -> None:
    host(level, text_at(component), text_at(text, size))


@trampoline("trl_progress_fn")
def _progress(host: ProgressFunction, phase: int, done: int, total: int) -> int:
    return number_of(host(text_at(phase), done, total))


class Runtime(Handle):
    """Everything that takes a runtime also works without one."""

    def __init__(self, config: Options = None) -> None:
        pointer = create(lib.trl_runtime_create, lib.trl_runtime_destroy, config_of(config))
        self._own(pointer, lib.trl_runtime_destroy)

    def set_log(self, function: LogFunction | None) -> None:
        """Sends log lines to function(level, component, text); level is one of LogLevel. Within it, nothing of the
        library may be used."""
        if function is None:
            call(lib.trl_runtime_set_log, self, no_function("trl_log_fn"), None, no_function("trl_destroy_fn"))
        else:
            call(lib.trl_runtime_set_log, self, _log, keep(self, function), forget)

    def set_progress(self, function: ProgressFunction | None) -> None:
        """Tells function(phase, done, total) of calls that open, make or save something. A result that is true
        (Progress.STOP) ends the call with CancelledError."""
        if function is None:
            call(lib.trl_runtime_set_progress, self, no_function("trl_progress_fn"), None, no_function("trl_destroy_fn"))
        else:
            call(lib.trl_runtime_set_progress, self, _progress, keep(self, function), forget)

    def set_memory_limit(self, limit: int) -> None:
        """Sets the limit of the process for large buffers, in bytes; 0: none."""
        call(lib.trl_runtime_set_memory_limit, self, limit)

    def memory(self, kind: str | None = None) -> tuple[int, int]:
        """The bytes that large buffers of a kind, or all, hold now and held at most."""
        now, peak = ctypes.c_int64(), ctypes.c_int64()
        name = None if kind is None else kind.encode()
        call(lib.trl_runtime_memory, self, name, ctypes.byref(now), ctypes.byref(peak))
        return now.value, peak.value

    def describe(self) -> dict[str, Any]:
        """Describes the runtime and the engine, which it opens."""
        return ask_json(lib.trl_runtime_describe, self)  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Ends the calls that are in progress on this runtime, from any thread."""
        lib.trl_runtime_cancel(self._handle)


def cancel_all() -> None:
    """Ends the calls that are in progress in the whole process."""
    lib.trl_runtime_cancel(None)
