"""Rows and tokenizers."""

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from ._api import Status
from ._capsule import capsule_pointer
from ._config import Config, Options, config_of
from ._core import (
    Handle, ask_json, call, create, encode, encode_json, encode_name, encode_path, forget, int32s, keep, kept, number_of,
    text_at, trampoline,
)
from ._library import lib
from ._runtime import Runtime

Row = Mapping[str, Any]
Rows = Iterable[Row] | Callable[[], Iterable[Row]]
BatchFunction = Callable[[dict[str, Any]], int | bool | None]


class _Reader:
    """Reads rows of the host from their start, as often as it is asked to."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.reading: Iterator[Row] | None = None

    def rewind(self) -> None:
        rows = self.rows() if callable(self.rows) else self.rows
        if self.reading is not None and iter(rows) is rows and not callable(self.rows):
            raise TypeError("these rows are read again, and an iterator gives them once; give a list or a function")
        self.reading = iter(rows)


def _ids(value: object) -> memoryview | None:
    """The integers of an array, such as array.array or one of NumPy; None for any other value."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return view if view.ndim == 1 and view.format in ("i", "l", "q") else None


@trampoline("trl_next_record_fn")
def _next(host: _Reader, record: int) -> int:
    assert host.reading is not None
    row = next(host.reading, None)
    if row is None:
        return Status.END
    for name, value in row.items():
        if isinstance(value, str):
            data = value.encode()
            call(lib.trl_record_set_text, record, encode_name(name), data, len(data))
        elif (ids := _ids(value)) is not None:
            call(lib.trl_record_set_ids, record, encode_name(name), *int32s(ids))
        else:
            data = encode_json(value)
            call(lib.trl_record_set_json, record, encode_name(name), data, len(data))
    return Status.OK


@trampoline("trl_rewind_fn")
def _rewind(host: _Reader) -> int:
    host.rewind()
    return Status.OK


@trampoline("trl_batch_fn")
def _batch(host: BatchFunction, text: int, size: int) -> int:
    return number_of(host(json.loads(text_at(text, size))))


class Tokenizer(Handle):
    """The tokenizer of a model directory or of a GGUF file."""

    def __init__(self, path: str | os.PathLike[str], options: Options = None, *, runtime: Runtime | None = None) -> None:
        pointer = create(lib.trl_tokenizer_open, lib.trl_tokenizer_destroy, runtime, encode_path(path),
                         config_of(options))
        self._own(pointer, lib.trl_tokenizer_destroy, runtime)

    def encode(self, text: str, *, add_special_tokens: bool = True, split_special_tokens: bool | None = None) -> list[int]:
        """The token ids of a text. Special tokens that are spelled out in it are text like any other if
        split_special_tokens is true, and recognised if it is false; None: as the tokenizer's key of that name says."""
        data = encode(text)
        split = -1 if split_special_tokens is None else split_special_tokens
        capacity = len(data) + 8
        while True:
            ids, count = (ctypes.c_int32 * capacity)(), ctypes.c_size_t()
            call(lib.trl_tokenizer_encode, self, data, len(data), add_special_tokens, split, ids, capacity,
                 ctypes.byref(count))
            if count.value <= capacity:
                return ids[: count.value]
            capacity = count.value

    def _text(self, function: Callable[..., int], *arguments: Any) -> str:
        """The text that a function writes into a buffer."""
        capacity = 1024
        while True:
            text, size = ctypes.create_string_buffer(capacity), ctypes.c_size_t()
            call(function, self, *arguments, text, capacity, ctypes.byref(size))
            if size.value <= capacity:
                return text.raw[: size.value].decode()
            capacity = size.value

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        return self._text(lib.trl_tokenizer_decode, *int32s(ids), skip_special_tokens)

    def piece(self, token: int) -> str:
        """A token as in the vocabulary."""
        return self._text(lib.trl_tokenizer_get_piece, token)

    def apply_chat_template(self, messages: Sequence[Row] | Row) -> str:
        """Renders a list of messages, or a mapping with `messages` and, if wanted, `tools`, `add_generation_prompt`,
        `continue_final_message` and `chat_template_kwargs`."""
        data = encode_json(messages)
        return self._text(lib.trl_tokenizer_apply_chat_template, data, len(data))

    def describe(self) -> dict[str, Any]:
        """The size of the vocabulary, special tokens and the chat template."""
        return ask_json(lib.trl_tokenizer_describe, self)  # type: ignore[no-any-return]


class Dataset(Handle):
    """Rows: of a file, a folder or a glob, or of one of the other constructors."""

    def __init__(self, path: str | os.PathLike[str], options: Options = None, *, runtime: Runtime | None = None) -> None:
        self._make(lib.trl_dataset_open, runtime, encode_path(path), config_of(options))

    def _make(self, function: Callable[..., int], runtime: Runtime | None, *arguments: Any) -> Self:
        self._own(create(function, lib.trl_dataset_destroy, runtime, *arguments), lib.trl_dataset_destroy, runtime)
        return self

    @classmethod
    def from_config(cls, config: Config, *, runtime: Runtime | None = None) -> tuple[Self, Self | None]:
        """The rows that a configuration names, to train on and to evaluate."""
        train, evaluation = ctypes.c_void_p(), ctypes.c_void_p()
        found: list[Self] = []
        try:
            call(lib.trl_dataset_open_config, runtime, config,
                 ctypes.byref(train), ctypes.byref(evaluation))
        finally:
            for pointer in filter(None, (train.value, evaluation.value)):
                found.append(cls.__new__(cls))
                found[-1]._own(pointer, lib.trl_dataset_destroy, runtime)
        return found[0], found[1] if len(found) > 1 else None

    @classmethod
    def from_buffer(cls, format: str, data: bytes, options: Options = None, *,
                    runtime: Runtime | None = None) -> Self:
        """Rows of a file in memory; format is jsonl, json, csv or text."""
        return cls.__new__(cls)._make(lib.trl_dataset_from_buffer, runtime, encode_name(format, "format"), data, len(data),
                                      config_of(options))

    @classmethod
    def from_rows(cls, rows: Iterable[Row], options: Options = None, *, runtime: Runtime | None = None) -> Self:
        """Rows in memory, copied now."""
        return cls.from_buffer("jsonl", b"\n".join(map(encode_json, rows)), options, runtime=runtime)

    @classmethod
    def from_iterable(cls, rows: Rows, options: Options = None, *, runtime: Runtime | None = None) -> Self:
        """Rows that are asked for when they are read, more than once: an iterable, or a function that gives one."""
        dataset = cls.__new__(cls)
        return dataset._make(lib.trl_dataset_from_callback, runtime, _next, _rewind, keep(dataset, _Reader(rows)), forget,
                             config_of(options))

    @classmethod
    def from_arrow(cls, stream: Any, options: Options = None, *, runtime: Runtime | None = None) -> Self:
        """Rows of an object that exports an Arrow stream (__arrow_c_stream__), such as a table of pyarrow."""
        capsule = stream.__arrow_c_stream__() if hasattr(stream, "__arrow_c_stream__") else stream
        return cls.__new__(cls)._make(lib.trl_dataset_from_arrow, runtime,
                                      capsule_pointer(capsule, b"arrow_array_stream"), config_of(options))

    def row_count(self) -> int:
        """Reads all rows and counts them."""
        count = ctypes.c_int64()
        call(lib.trl_dataset_get_row_count, self, ctypes.byref(count))
        return count.value

    def profile(self, tokenizer: Tokenizer, options: Options = None) -> tuple[dict[str, Any], str]:
        """How long rows are: the numbers, and a plot as text."""
        numbers, plot = ctypes.c_char_p(), ctypes.c_char_p()
        call(lib.trl_dataset_get_profile, self, tokenizer, config_of(options),
             ctypes.byref(numbers), ctypes.byref(plot))
        return json.loads(numbers.value or b"{}"), (plot.value or b"").decode()

    def example(self, tokenizer: Tokenizer, row: int, options: Options = None) -> dict[str, Any]:
        """One row as SFT tokenises it."""
        return ask_json(lib.trl_dataset_get_example, self, tokenizer,  # type: ignore[no-any-return]
                        config_of(options), row)

    def visit_batches(self, tokenizer: Tokenizer, function: BatchFunction, options: Options = None, *, first: int = 0,
                      count: int = 2**62) -> None:
        """Gives micro-batches of the first epoch to function, until it returns something that is true."""
        with kept(function) as number:
            call(lib.trl_dataset_visit_batches, self, tokenizer, config_of(options), first,
                 count, _batch, number)
