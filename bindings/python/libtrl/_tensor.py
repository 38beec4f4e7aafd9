"""Tensors, which go to and come from other packages by DLPack, version 1."""

import ctypes
import functools
import math
import weakref
from typing import Any

from ._capsule import capsule_pointer, is_capsule, new_capsule, rename_capsule
from ._core import Handle


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _Type),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned"""

    name, taken = b"dltensor_versioned", b"used_dltensor_versioned"
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


class _Older(ctypes.Structure):
    """DLManagedTensor, from before version 1"""

    name, taken = b"dltensor", b"used_dltensor"
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_READ_ONLY, _COPIED = 1, 2  # flags
_HOST = (1, 0)  # the device of the host's memory
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}  # of types, by their code
_BITS = {"e": 16, "f": 32, "d": 64}  # of floating-point numbers, by their letter in a buffer
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("PyMem_RawMalloc", ctypes.pythonapi))
_free = ctypes.cast(ctypes.pythonapi.PyMem_RawFree, ctypes.c_void_p).value


def delete(pointer: ctypes.c_void_p) -> None:
    """Deletes a tensor of the library."""
    if pointer:
        _Deleter(_Versioned.from_address(pointer.value or 0).deleter)(pointer)


def _release(capsule: object, pointer: int) -> None:
    """Deletes what a capsule has, unless somebody took it, and what is taken later is nothing."""
    for kind in (_Versioned, _Older):
        if is_capsule(capsule, kind.name):
            rename_capsule(capsule, kind.taken)
            _Deleter(kind.from_address(pointer).deleter)(pointer)


class Tensor(Handle):
    """Numbers of a model that were read. Another package takes them without a copy, once: numpy.from_dlpack(tensor),
    torch.from_dlpack(tensor). One that does not know version 1 of DLPack gets a copy. The memory is freed when this
    object is gone or closed, or is that package's to free."""

    # A deleter or a destructor of a capsule that is a function of Python would lose the exception that is being raised
    # when it runs. So all of them are C's: the library's own, and free.

    def __init__(self, pointer: int) -> None:
        managed = _Versioned.from_address(pointer)
        tensor = managed.tensor
        self._capsule = new_capsule(pointer, _Versioned.name)
        self._own(pointer, functools.partial(_release, self._capsule))
        self.shape: tuple[int, ...] = tuple(tensor.shape[: tensor.ndim])
        self.dtype = f"{_KINDS.get(tensor.dtype.code, 'type')}{tensor.dtype.bits}"  # "float32", "bfloat16" ...
        self.read_only = bool(managed.flags & _READ_ONLY)  # a view
        self._device = (tensor.device.type, tensor.device.id)
        self._size = math.prod(self.shape) * tensor.dtype.bits // 8

    def _memory(self) -> _Tensor:
        pointer = self._handle
        if not is_capsule(self._capsule, _Versioned.name):
            raise BufferError("another package has this tensor; read it again")
        return _Versioned.from_address(pointer).tensor  # type: ignore[no-any-return]

    def _address(self) -> int:
        tensor = self._memory()
        if self._device != _HOST:
            raise BufferError(f"this tensor is not in the host's memory, but on a device of type {self._device[0]}")
        return int(tensor.data or 0) + int(tensor.byte_offset)

    def tobytes(self) -> bytes:
        """A copy of the memory, row by row: memoryview(tensor.tobytes()).cast("f", tensor.shape) has the numbers of a
        tensor of float32."""
        return (ctypes.c_char * self._size).from_address(self._address()).raw if self._size else b""

    def _copy(self, kind: type[_Versioned] | type[_Older]) -> object:
        """A capsule with a copy: one block of memory, which free deletes."""
        ndim, source = len(self.shape), self._address()
        extents = ctypes.sizeof(kind)
        start = (extents + 16 * ndim + 63) // 64 * 64
        block = _allocate(start + self._size)
        if not block:
            raise MemoryError(f"{start + self._size} bytes")
        ctypes.memset(block, 0, start)
        ctypes.memmove(block + start, source, self._size)
        managed, tensor = kind.from_address(block), self._memory()
        shape = (ctypes.c_int64 * (2 * ndim)).from_address(block + extents)
        for axis in reversed(range(ndim)):
            shape[axis] = self.shape[axis]
            shape[ndim + axis] = shape[axis + 1] * shape[ndim + axis + 1] if axis + 1 < ndim else 1
        pointer = ctypes.POINTER(ctypes.c_int64)
        managed.deleter = _free
        managed.tensor = _Tensor(block + start, tensor.device, ndim, tensor.dtype,
                                 ctypes.cast(block + extents, pointer), ctypes.cast(block + extents + 8 * ndim, pointer), 0)
        if isinstance(managed, _Versioned):
            managed.major, managed.flags = 1, _COPIED
        capsule = new_capsule(block, kind.name)
        weakref.finalize(self, _release, capsule, block).atexit = False
        return capsule

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """What numpy.from_dlpack and its like call. The result is good as long as this object, until it is taken."""
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError(f"this tensor is on a device of type {self._device[0]}, not {dl_device[0]}")
        versioned = max_version is not None and max_version[0] >= 1
        if copy or not versioned:
            if copy is False:
                raise BufferError("without a copy a tensor is given only to who knows version 1 of DLPack")
            return self._copy(_Versioned if versioned else _Older)
        self._memory()
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype} {list(self.shape)}>"


def given(values: Any) -> tuple[_Versioned, object]:
    """A tensor of the host as the library takes it, and the object that has its memory, which frees it later."""
    if not hasattr(values, "__dlpack__"):
        return _from_buffer(memoryview(values))
    try:
        capsule = values.__dlpack__(max_version=(1, 0))
    except TypeError:  # it is from before version 1
        try:
            capsule = values.__dlpack__()
        except BufferError:  # and then cannot say that it is read-only, as an array of NumPy
            return _from_buffer(memoryview(values))
    if is_capsule(capsule, _Older.name):
        return _Versioned(major=1, tensor=_Older.from_address(capsule_pointer(capsule, _Older.name)).tensor), capsule
    managed = _Versioned.from_address(capsule_pointer(capsule, _Versioned.name))
    return _Versioned(managed.major, managed.minor, None, None, managed.flags, managed.tensor), capsule


def _from_buffer(view: memoryview) -> tuple[_Versioned, object]:
    bits = _BITS.get((view.format or "").lstrip("@=<"))
    if bits is None:
        raise TypeError(f"the buffer has numbers of format {view.format!r}; accepted: {', '.join(_BITS)}")
    data = view.tobytes()
    shape = (ctypes.c_int64 * view.ndim)(*(view.shape or ()))
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    tensor = _Tensor(address, _Device(*_HOST), view.ndim, _Type(2, bits, 1),
                     ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0)
    return _Versioned(major=1, tensor=tensor), (data, shape)
