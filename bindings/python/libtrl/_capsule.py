"""Capsules: how other packages of Python hand over pointers."""

import ctypes
from collections.abc import Callable
from typing import Any


def _function(name: str, result: Any, *parameters: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


_new = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_rename = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
capsule_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def new_capsule(pointer: int, name: bytes) -> object:
    """A capsule, which has only a pointer to its name."""
    return _new(pointer, name, None)


def rename_capsule(capsule: object, name: bytes) -> None:
    _rename(capsule, name)


def is_capsule(capsule: object, name: bytes) -> bool:
    """Whether this is a capsule of that name. The name of one that was taken changes."""
    return bool(_valid(capsule, name))
