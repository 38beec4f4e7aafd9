"""A configuration: TRL's keys and their values."""

import json
import operator
import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ._core import Handle, ask_json, ask_text, call, create, encode, encode_name, encode_path, terminated
from ._library import lib
from ._options import option


def _number(value: Any) -> object:
    """A number of another library, such as NumPy, as one of Python."""
    if getattr(value, "ndim", None) == 0:
        return value.item()
    if hasattr(type(value), "__index__"):
        return operator.index(value)
    if hasattr(type(value), "__float__"):
        return float(value)
    raise TypeError(f"a text, a number, a bool, None, a list or a dict is needed, and not {value!r}")


def _text(key: str, value: object) -> bytes:
    """How a value is written: a text as it is, everything else as JSON."""
    try:
        if isinstance(value, (str, os.PathLike)):
            return terminated(os.fsencode(value))
        return json.dumps(value, ensure_ascii=False, default=_number).encode()
    except TypeError as error:
        raise TypeError(f"{key}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


class Config(Handle, MutableMapping[str, Any]):
    """A mapping of the keys that were set to values of their types. Reading a key that was not set gives its default;
    deleting one sets it back. An unknown key is a ConfigError that names the one that was meant."""

    def __init__(self, keys: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._own(create(lib.trl_config_create, lib.trl_config_destroy), lib.trl_config_destroy)
        self.update(keys or {}, **more)

    def __getitem__(self, key: str) -> Any:
        text = ask_text(lib.trl_config_get, self, encode_name(key, "key"))
        return option(key).value(text)

    def __setitem__(self, key: str, value: Any) -> None:
        call(lib.trl_config_set, self, encode_name(key, "key"), _text(key, value))

    def __delitem__(self, key: str) -> None:
        call(lib.trl_config_unset, self, encode_name(key, "key"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.describe())

    def __len__(self) -> int:
        return len(self.describe())

    def __contains__(self, key: object) -> bool:
        return key in self.describe()

    def text(self, key: str) -> str:
        """The canonical text of a value, "null" when there is none."""
        return ask_text(lib.trl_config_get, self, encode_name(key, "key"))

    def origin(self, key: str) -> str:
        """Where a value comes from: "default", "set", or the place in a file."""
        return ask_text(lib.trl_config_get_origin, self, encode_name(key, "key"))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Sets every key of a YAML or JSON file."""
        call(lib.trl_config_load, self, encode_path(path))

    def load_text(self, text: str) -> None:
        """Sets every key of a YAML or JSON text."""
        data = encode(text)
        call(lib.trl_config_load_text, self, data, len(data))

    def describe(self) -> dict[str, Any]:
        """The keys that were set, under their canonical names."""
        return ask_json(lib.trl_config_describe, self)  # type: ignore[no-any-return]

    def warnings(self) -> list[str]:
        """Warnings about the keys that were set."""
        return ask_json(lib.trl_config_get_warnings, self)  # type: ignore[no-any-return]

    @staticmethod
    def schema(trainer: str | None = None) -> dict[str, Any]:
        """The JSON schema of a configuration file: of all keys, or of those that a trainer reads, with its defaults."""
        return ask_json(lib.trl_config_get_schema, encode_name(trainer, "trainer"))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "<Config, closed>" if self.closed else f"Config({self.describe()!r})"

    __hash__ = None  # type: ignore[assignment]


Options = Config | Mapping[str, Any] | None


def config_of(options: Options) -> Config | None:
    """A Config of what functions take as options."""
    return options if options is None or isinstance(options, Config) else Config(options)
