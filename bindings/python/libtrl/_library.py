"""Finds libtrl.so and libtrl_serve.so, loads each at its first use, and gives their functions their types."""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._api import CALLBACKS, FUNCTIONS, SERVE_FUNCTIONS, VERSION

_NAMES = (f"libtrl.so.{VERSION[0]}", "libtrl.so")
_SERVE_NAMES = (f"libtrl_serve.so.{VERSION[0]}", "libtrl_serve.so")
_TYPES: dict[str, Any] = {
    "None": None,
    "pointer": ctypes.c_void_p,
    "text": ctypes.c_char_p,
    "char": ctypes.c_char,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "uint8": ctypes.c_uint8,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


# The range of each integer type. ctypes silently drops the bits that do not fit.
_RANGES = {_TYPES[f"{sign}int{bits}"]: range(-(1 << bits - 1) if not sign else 0, 1 << (bits if sign else bits - 1))
           for sign in ("", "u") for bits in (32, 64)}


def check_integers(types: Iterable[Any], values: Iterable[Any]) -> None:
    """Raises OverflowError if an integer is beyond its type."""
    for kind, value in zip(types, values):
        held = _RANGES.get(kind)
        if held is not None and isinstance(value, int) and not held.start <= value < held.stop:
            raise OverflowError(f"{value} is not an integer from {held.start} to {held.stop - 1}")


def type_of(name: str) -> Any:
    if name in CALLBACKS:
        return callback_types[name]
    return ctypes.POINTER(_TYPES[name[:-1]]) if name.endswith("*") else _TYPES[name]


def _given(name: str) -> Any:
    """A type of what the library gives. A text is a pointer there, since it may hold NUL."""
    return type_of("pointer" if name == "text" else name)


callback_types: dict[str, Any] = {name: ctypes.CFUNCTYPE(*map(_given, types)) for name, types in CALLBACKS.items()}


def _candidates() -> Iterator[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "lib")):
        yield from (os.path.join(folder, name) for name in _NAMES)
    try:
        asked = subprocess.run(
            ["pkg-config", "--variable=libdir", "trl"], capture_output=True, text=True, check=False, timeout=10
        )
        if folder := asked.stdout.strip():
            yield from (os.path.join(folder, name) for name in _NAMES)
    except (OSError, subprocess.TimeoutExpired):
        pass


def _open(path: str | None) -> ctypes.CDLL:
    path = path or os.environ.get("TRL_LIBRARY")
    found = path or next(filter(os.path.exists, _candidates()), _NAMES[0])
    try:
        opened = ctypes.CDLL(found)
    except OSError as error:
        hint = "" if path else "; TRL_LIBRARY may have its path"
        raise ImportError(f"the library {found} cannot be loaded: {error}{hint}") from None
    opened.trl_version.restype = ctypes.c_uint32
    packed = opened.trl_version()
    version = (packed >> 16, packed >> 8 & 255, packed & 255)
    same = 2 if VERSION[0] == 0 else 1  # until 1.0 a minor version may break things
    if version[:same] != VERSION[:same]:
        have, want = ".".join(map(str, version)), ".".join(map(str, VERSION))
        raise ImportError(f"{found} is version {have}, and this package is for {want}")
    return opened


def _open_serve(_path: str | None) -> ctypes.CDLL:
    """The server's library is the one beside libtrl.so, or else the dynamic linker's."""
    beside = lib.path()
    folders = dict.fromkeys(os.path.dirname(path) for path in (beside, os.path.realpath(beside))) if "/" in beside else ()
    candidates = (os.path.join(folder, name) for folder in folders for name in _SERVE_NAMES)
    found = next(filter(os.path.exists, candidates), _SERVE_NAMES[0])
    try:
        return ctypes.CDLL(found)
    except OSError as error:
        raise ImportError(f"the server's library {found} cannot be loaded beside {beside}: {error}") from None


class Library:
    """The functions of a library, by name. The first one that is asked for loads it."""

    def __init__(self, functions: dict[str, tuple[str, ...]], opener: Callable[[str | None], ctypes.CDLL]) -> None:
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None
        self._functions = functions
        self._opener = opener

    def load(self, path: str | os.PathLike[str] | None = None) -> ctypes.CDLL:
        with self._lock:
            if self._library is None:
                self._library = self._opener(None if path is None else os.fspath(path))
            elif path is not None and os.fspath(path) != self._library._name:
                raise RuntimeError(f"{self._library._name} is loaded already")
            return self._library

    def path(self) -> str:
        """The path that it was loaded from, or the name that the dynamic linker found."""
        return self.load()._name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        types = self._functions.get(name)
        if types is None:
            raise AttributeError(name)
        try:
            function = getattr(self.load(), name)
        except AttributeError:
            raise NotImplementedError(f"this libtrl has no {name}; it is older than this package") from None
        function.restype = _given(types[0])
        function.argtypes = [type_of(parameter) for parameter in types[1:]]
        setattr(self, name, function)
        return function  # type: ignore[no-any-return]


lib = Library(FUNCTIONS, _open)
serve_lib = Library(SERVE_FUNCTIONS, _open_serve)  # a program that does not serve never loads it


def load(path: str | os.PathLike[str] | None = None) -> None:
    """Loads the library: of this path, or of TRL_LIBRARY, or the one next to this package, or the one that pkg-config
    or the dynamic linker finds. Without this call the first use of anything does it."""
    lib.load(path)
