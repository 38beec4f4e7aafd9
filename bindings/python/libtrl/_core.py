"""What every object stands on: calls that become exceptions, handles, and functions of the host that the library calls."""

import array
import contextlib
import ctypes
import itertools
import json
import operator
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from ._api import CALLBACKS, Status
from ._errors import exception
from ._library import callback_types, check_integers, lib, type_of


class _Thread(threading.local):
    calls = 0  # that run, one within a function of the host of another
    pending: BaseException | None = None  # raised by a function of the host within the innermost call
    reward: Exception | None = None  # raised by a reward there, whose failure on_reward_error may let pass
    inside = False  # a function of the host runs, so that an interrupt may be raised at once


_thread = _Thread()


def _interrupted(_signal: int, _frame: object) -> None:
    if _thread.inside:
        raise KeyboardInterrupt
    _thread.pending = KeyboardInterrupt()


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keeps Ctrl-C from being raised where a callback begins: ctypes would print and forget it there."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupted)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupted:  # the host may have set another one meanwhile
            signal.signal(signal.SIGINT, signal.default_int_handler)


def call(function: Callable[..., int], *arguments: Any) -> int:
    """Calls a function whose last parameter is `trl_error **`; objects that own a handle stand for it. Raises what a
    callback raised within the call, or else the error; returns the status."""
    error = ctypes.c_void_p()
    values = [value._handle if isinstance(value, Handle) else value for value in arguments]
    check_integers(function.argtypes, values)  # type: ignore[attr-defined]
    inside, outer = _thread.inside, _thread.reward
    with _interrupts_kept():
        _thread.inside, _thread.reward = False, None
        _thread.calls += 1
        try:
            status = function(*values, ctypes.byref(error))
        finally:
            _thread.calls -= 1
            _thread.inside = inside
            reward, _thread.reward = _thread.reward, outer
    pending, _thread.pending = _thread.pending, None
    if pending is None and status == Status.E_CALLBACK and lib.trl_error_callback_code(error) == 0:
        pending = reward
    if pending is not None:
        lib.trl_error_destroy(error)
        raise pending
    if status < 0:
        raise exception(status, error)
    return status


def create(function: Callable[..., int], destroy: Callable[[Any], None], *arguments: Any) -> int:
    """Calls a function whose last parameters are a handle that it makes and `trl_error **`."""
    out = ctypes.c_void_p()
    try:
        call(function, *arguments, ctypes.byref(out))
    except BaseException:
        destroy(out)
        raise
    return out.value or 0


class Handle:
    """Owns an object of the library: until close, the end of a `with`, or the last reference. What the library keeps
    alive for it is kept alive here, too (`_parents`): it may have functions of the host, which belong to the Python
    object, so that the garbage collector sees circles through them."""

    _functions: "list[Function]"

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        self._functions = []
        return self

    def _own(self, pointer: int, destroy: Callable[[Any], None], *parents: "Handle | None") -> None:
        self._pointer = pointer
        self._parents = parents
        self._finalizer = weakref.finalize(self, destroy, pointer)
        self._finalizer.atexit = False  # the library itself ends what runs when the process ends

    @property
    def _handle(self) -> int:
        if not self._finalizer.alive:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """Frees the object. Objects that were made with it continue to work."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def text_at(pointer: int | None, size: int = -1) -> str:
    """A copy of a text of the library; "" for NULL."""
    return "" if not pointer else ctypes.string_at(pointer, size).decode()


def text_or_none(pointer: int | None) -> str | None:
    return text_at(pointer) if pointer else None


def ask_text(function: Callable[..., int], *arguments: Any) -> str:
    """A copy of the text that a function gives by its last parameter but one."""
    out = ctypes.c_char_p()
    call(function, *arguments, ctypes.byref(out))
    return (out.value or b"").decode()


def ask_json(function: Callable[..., int], *arguments: Any) -> Any:
    return json.loads(ask_text(function, *arguments))


def terminated(text: bytes) -> bytes:
    """A text for a parameter that ends in NUL, where the library would not see what comes after one."""
    if 0 in text:
        raise ValueError(f"a text has a NUL character: {text.decode(errors='replace')!r}")
    return text


def encode(text: str, parameter: str = "text") -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{parameter} is a str, and not {text!r}")
    return text.encode()


def encode_name(name: str | None, parameter: str = "name") -> bytes | None:
    return None if name is None else terminated(encode(name, parameter))


def encode_path(path: str | os.PathLike[str] | None, parameter: str = "path") -> bytes | None:
    if path is not None and not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{parameter} is a str or an os.PathLike, and not {path!r}")
    return None if path is None else terminated(os.fsencode(path))


def encode_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def int32s(ids: Iterable[int]) -> tuple[Any, int]:
    """Integers as an array of the library, and their number. Raises OverflowError if one has more than 32 bits."""
    whole = array.array("i", ids)
    return (ctypes.c_int32 * len(whole)).from_buffer(whole), len(whole)


# ---- functions of the host: user_data is a number under which one is found ----------------------------------------------


class Function:
    """A function of the host, or an object with several."""

    def __init__(self, host: Any) -> None:
        self.host = host


_kept: dict[int, "weakref.ref[Function]"] = {}
_numbers = itertools.count(1)


def _enter(function: Function) -> int:
    number = next(_numbers)
    _kept[number] = weakref.ref(function)
    return number


def keep(owner: Handle, host: Any) -> int:
    """Keeps what is called until the library frees it (`forget`), as long as its owner lives."""
    function = Function(host)
    owner._functions.append(function)
    return _enter(function)


@contextlib.contextmanager
def kept(host: Any) -> Iterator[int]:
    """Keeps what is called during one call only."""
    function = Function(host)
    number = _enter(function)
    try:
        yield number
    finally:
        del _kept[number]


def _forget(number: int) -> None:
    function = _kept.pop(number)()
    if function is not None:
        function.host = None


forget = callback_types["trl_destroy_fn"](_forget)


def trampoline(kind: str, failed: int | None = Status.E_CALLBACK,
               after: Callable[..., bool] = lambda *_: False) -> Callable[[Callable[..., int | None]], Any]:
    """Makes a C function of one that takes what was kept and the arguments. An exception is raised again when the call
    of the library returns; until then no other function of the host runs in it, but for arguments with which it
    cleans up (`after`). If an object that is freed calls, there is no such call, and ctypes reports the exception."""

    answers = [type_of(CALLBACKS[kind][0])]

    def wrap(function: Callable[..., int | None]) -> Any:
        def run(number: int, *arguments: Any) -> int | None:
            kept_function = _kept[number]()
            if kept_function is None or _thread.pending is not None and not after(*arguments):
                return failed
            try:
                _thread.inside = True
                answer = function(kept_function.host, *arguments)
                check_integers(answers, [answer])
                return answer
            except BaseException as error:
                _thread.inside = False
                if not _thread.calls:
                    raise
                _thread.pending = _thread.pending or error
                return failed
            finally:
                _thread.inside = False

        return callback_types[kind](run)

    return wrap


def reward_failed(error: Exception) -> None:
    """Keeps what a reward raised, for a call that ends with it."""
    _thread.reward = _thread.reward or error


def number_of(answer: Any) -> int:
    """What a function of the host has answered: nothing, a truth value or an integer."""
    return 0 if answer is None else operator.index(answer)


def no_function(kind: str) -> Any:
    """NULL, where a function of the host could be."""
    return callback_types[kind]()
