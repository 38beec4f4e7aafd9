"""The errors of the library as exceptions: one class for each status."""

import ctypes
from typing import Any, NamedTuple

from ._api import Status
from ._library import lib


def _text(pointer: int | None) -> str | None:
    return ctypes.string_at(pointer).decode() if pointer else None


class Place(NamedTuple):
    """A place in what was read. What is not known is None."""

    file: str  # or the name that messages give to what is not a file, such as "text"
    line: int | None  # in a file of text, from 1
    column: int | None  # in bytes, from 1
    row: int | None  # of the dataset, from 0


class Error(Exception):
    """What a function of the library returns as an error. The wording of the message may change; act on the class, the
    status, the key and the place."""

    def __init__(self, message: str, status: int, key: str | None = None, callback_code: int = 0,
                 place: Place | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.key = key  # of the configuration, if one is at fault
        self.callback_code = callback_code  # what the host's callback returned
        self.place = place  # of the fault, if it is in a file, a text or a row

    @property
    def status_name(self) -> str:
        """The name of the status, such as "TRL_E_BUSY"."""
        return _text(lib.trl_status_name(self.status)) or ""


class InvalidArgumentError(Error, ValueError):
    """A value out of range, or an object in another state than the call needs."""


class ConfigError(Error, ValueError):
    """A key of the configuration or its value; `key` names it."""


class NotFoundError(Error, LookupError):
    """A file or a name that is not there."""


class InputOutputError(Error, OSError):
    """Reading or writing failed."""


class FormatError(Error, ValueError):
    """A malformed file, row or model."""


class UnsupportedError(Error, NotImplementedError):
    """This build or this process cannot do it."""


class OutOfMemoryError(Error, MemoryError):
    """The memory of the host, or runtime.host_memory_limit, is not enough."""


class OutOfDeviceMemoryError(Error, MemoryError):
    """The memory of a device is not enough."""


class DeviceError(Error):
    """A device failed."""


class DistributedError(Error):
    """Training on several processes failed."""


class CancelledError(Error):
    """The call was cancelled, or the process is ending."""


class BusyError(Error):
    """The object is in use elsewhere, or was used within a callback or after a fork."""


class CallbackError(Error):
    """A callback returned a number below 0. One that raises is seen as its own exception instead."""


class InternalError(Error):
    """A fault of the library."""


CLASSES: dict[int, type[Error]] = {
    Status.E_INVALID_ARGUMENT: InvalidArgumentError,
    Status.E_INVALID_CONFIG: ConfigError,
    Status.E_NOT_FOUND: NotFoundError,
    Status.E_IO: InputOutputError,
    Status.E_FORMAT: FormatError,
    Status.E_UNSUPPORTED: UnsupportedError,
    Status.E_OUT_OF_MEMORY: OutOfMemoryError,
    Status.E_OUT_OF_DEVICE_MEMORY: OutOfDeviceMemoryError,
    Status.E_DEVICE: DeviceError,
    Status.E_DISTRIBUTED: DistributedError,
    Status.E_CANCELLED: CancelledError,
    Status.E_BUSY: BusyError,
    Status.E_CALLBACK: CallbackError,
    Status.E_INTERNAL: InternalError,
}


def _place(error: Any) -> Place | None:
    file, line, column, row = ctypes.c_char_p(), ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int64()
    if not lib.trl_error_place(error, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column), ctypes.byref(row)):
        return None
    return Place((file.value or b"").decode(), line.value or None, column.value or None,
                 None if row.value < 0 else row.value)


def exception(status: int, error: Any) -> Error:
    """The exception of a trl_error, which it frees. error is NULL for functions without one."""
    try:
        message = _text(lib.trl_error_message(error)) or f"status {status}"
        key = _text(lib.trl_error_key(error))
        place = _place(error)
        code = lib.trl_error_callback_code(error)
        assert not error or lib.trl_error_code(error) == status
    finally:
        lib.trl_error_destroy(error)
    return CLASSES.get(status, InternalError)(message, status, key, code, place)
