"""The errors of the library as exceptions: one class for each status."""

import ctypes
from typing import Any

from ._api import Status
from ._library import lib


class Error(Exception):
    """What a function of the library returns as an error. The wording of the message may change; act on the class, the
    status and the key."""

    def __init__(self, message: str, status: int, key: str | None = None, callback_code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.key = key  # of the configuration, if one is at fault
        self.callback_code = callback_code  # what the host's callback returned


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


def exception(status: int, error: Any) -> Error:
    """The exception of a trl_error, which it frees. error is NULL for functions without one."""

    def text(pointer: int | None) -> str | None:
        return ctypes.string_at(pointer).decode() if pointer else None

    try:
        message = text(lib.trl_error_message(error)) or f"status {status}"
        key = text(lib.trl_error_key(error))
        code = lib.trl_error_callback_code(error)
        assert not error or lib.trl_error_code(error) == status
    finally:
        lib.trl_error_destroy(error)
    return CLASSES.get(status, InternalError)(message, status, key, code)
