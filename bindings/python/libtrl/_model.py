"""Models: to describe, score, convert, save and generate with, and their tensors."""

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Self

from ._api import TensorForm, TextForm
from ._config import Options, config_of
from ._core import Handle, ask_json, call, create, encode, encode_name, encode_path
from ._data import Tokenizer
from ._generate import Generator
from ._library import lib
from ._runtime import Runtime
from ._tensor import Tensor, delete, given

Path = str | os.PathLike[str]


def convert(path: Path, target: Path, options: Options = None, *, runtime: Runtime | None = None) -> None:
    """Converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory."""
    call(lib.trl_model_convert, runtime, encode_path(path), encode_path(target, "target"), config_of(options))


class Model(Handle):
    """A Hugging Face directory or a GGUF file; or that of a run (Trainer.model)."""

    def __init__(self, path: Path, options: Options = None, *, runtime: Runtime | None = None) -> None:
        pointer = create(lib.trl_model_open, lib.trl_model_destroy, runtime, encode_path(path), config_of(options))
        self._own(pointer, lib.trl_model_destroy, runtime)

    @classmethod
    def _from_trainer(cls, trainer: Handle) -> Self:
        model = cls.__new__(cls)
        model._own(create(lib.trl_model_from_trainer, lib.trl_model_destroy, trainer), lib.trl_model_destroy, trainer)
        return model

    def describe(self) -> dict[str, Any]:
        """The number of parameters, and the model's config.json."""
        return ask_json(lib.trl_model_describe, self)  # type: ignore[no-any-return]

    def tensors(self) -> list[dict[str, Any]]:
        """The tensors, with those of adapters: name, shape, dtype, stored, trained, gradient."""
        return ask_json(lib.trl_model_get_tensors, self)  # type: ignore[no-any-return]

    def read_tensor(self, name: str, what: int = TensorForm.COPY) -> Tensor:
        """A copy of a tensor, a view of its memory, whose numbers are good until they next change, or a copy of its
        gradient, between Trainer.backward and Trainer.update."""
        return Tensor(create(lib.trl_model_read_tensor, delete, self, encode_name(name), what))

    def write_tensor(self, name: str, values: Any) -> None:
        """Writes a tensor: from any object with __dlpack__, such as an array of NumPy, a tensor of PyTorch or a Tensor, or
        from a buffer of floating-point numbers. Of the same shape; their type is converted."""
        managed, _owner = given(values)
        call(lib.trl_model_write_tensor, self, encode_name(name), ctypes.byref(managed))

    def add_adapter(self, name: str, path: Path) -> None:
        """Adds a saved LoRA adapter, which is not used yet."""
        call(lib.trl_model_add_adapter, self, encode_name(name), encode_path(path))

    def remove_adapter(self, name: str) -> None:
        call(lib.trl_model_remove_adapter, self, encode_name(name))

    def use_adapter(self, name: str | None) -> None:
        """Chooses the adapter to compute with; None: only the model."""
        call(lib.trl_model_use_adapter, self, encode_name(name))

    def merge_adapter(self, name: str | None) -> None:
        """Merges an adapter into the weights; None undoes it."""
        call(lib.trl_model_merge_adapter, self, encode_name(name))

    def save(self, path: Path, options: Options = None) -> None:
        """Saves the model, or its adapter (save.kind)."""
        call(lib.trl_model_save, self, encode_path(path), config_of(options))

    def score(self, texts: Sequence[str], options: Options = None, *, form: int = TextForm.ANSWER) -> list[float]:
        """The scores that a reward model gives to texts."""
        data = [encode(text) for text in texts]
        scores = (ctypes.c_float * len(data))()
        call(lib.trl_model_score, self, (ctypes.c_char_p * len(data))(*data),
             (ctypes.c_size_t * len(data))(*map(len, data)), len(data), form, config_of(options), scores)
        return list(scores)

    def generator(self, tokenizer: Tokenizer | None = None) -> Generator:
        """A generator with this model, and with its own tokenizer or another one."""
        return Generator(create(lib.trl_generator_create, lib.trl_generator_destroy, self, tokenizer), self)
