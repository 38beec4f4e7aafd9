"""The threads, memory limit, log, progress and files of what is created with it."""

import ctypes
from collections.abc import Callable
from typing import Any

from ._api import Status, WriteKind
from ._config import Options, config_of
from ._core import (
    Handle, ask_json, call, create, encode_name, forget, keep, no_function, number_of, text_at, trampoline,
)
from ._library import lib

LogFunction = Callable[[int, str, str], object]
ProgressFunction = Callable[[str, int, int], int | bool | None]
ReadFunction = Callable[[str, int, memoryview | None], int]
WriteFunction = Callable[[int, str, int, bytes], int | None]


@trampoline("trl_log_fn", failed=None)
def _log(host: LogFunction, level: int, component: int, text: int, size: int) -> None:
    host(level, text_at(component), text_at(text, size))


@trampoline("trl_progress_fn")
def _progress(host: ProgressFunction, phase: int, done: int, total: int) -> int:
    return number_of(host(text_at(phase), done, total))


@trampoline("trl_read_fn")
def _read(host: tuple[ReadFunction, WriteFunction], file: int, offset: int, buffer: int | None, size: int) -> int:
    try:
        if not buffer:
            return number_of(host[0](text_at(file), offset, None))
        with memoryview((ctypes.c_char * size).from_address(buffer)).cast("B") as view:
            return number_of(host[0](text_at(file), offset, view))
    except FileNotFoundError:
        return Status.E_NOT_FOUND


@trampoline("trl_write_fn", after=lambda what, *_: bool(what == WriteKind.DROPPED))
def _write(host: tuple[ReadFunction, WriteFunction], what: int, file: int, offset: int, data: int | None, size: int) -> int:
    copied = (ctypes.c_char * size).from_address(data).raw if data else b""
    return number_of(host[1](what, text_at(file), offset, copied))


class Runtime(Handle):
    """Everything that takes a runtime also works without one."""

    def __init__(self, config: Options = None) -> None:
        pointer = create(lib.trl_runtime_create, lib.trl_runtime_destroy, config_of(config))
        self._own(pointer, lib.trl_runtime_destroy)

    def set_log(self, function: LogFunction | None) -> None:
        """Sends log lines to function(level, component, text); level is one of LogLevel."""
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

    def mount(self, name: str, read: ReadFunction | None = None, write: WriteFunction | None = None) -> None:
        """Makes "host://NAME" and "host://NAME/FOLDER" paths of folders whose files the host reads and writes: where a
        model, an adapter, a tokenizer or a checkpoint is read or saved.

        read(file, offset, buffer) puts the bytes from offset on into buffer, a memoryview that is valid during the call,
        and returns how many: fewer than len(buffer) only at the end of the file. Without a buffer (None) it returns the
        bytes of the whole file. It raises FileNotFoundError if there is no such file.

        write(what, file, offset, data) takes what is saved; what is one of WriteKind. WriteKind.DROPPED is told after an
        exception, too."""
        call(lib.trl_runtime_mount, self, encode_name(name), _read if read else no_function("trl_read_fn"),
             _write if write else no_function("trl_write_fn"), keep(self, (read, write)), forget)

    def set_memory_limit(self, limit: int) -> None:
        """Sets the limit of the process for large buffers, in bytes; 0: none."""
        call(lib.trl_runtime_set_memory_limit, self, limit)

    def memory(self, kind: str | None = None) -> tuple[int, int]:
        """The bytes that large buffers of a kind, or all, hold now and held at most."""
        now, peak = ctypes.c_int64(), ctypes.c_int64()
        call(lib.trl_runtime_memory, self, encode_name(kind, "kind"), ctypes.byref(now), ctypes.byref(peak))
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
