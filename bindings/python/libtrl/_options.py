"""The table of options, and what this build is."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from ._api import OptionType
from ._core import call, encode_name, text_at, text_or_none
from ._library import lib


def version() -> str:
    """The version of the library."""
    return text_at(lib.trl_version_string())


def version_number() -> int:
    """The version of the library: (major << 16) | (minor << 8) | patch."""
    return int(lib.trl_version())


def build_info() -> dict[str, Any]:
    """How the library was built."""
    return json.loads(text_at(lib.trl_build_info()))  # type: ignore[no-any-return]


def has_feature(name: str) -> bool:
    """Whether this build has a feature of the list `features` of build_info."""
    return bool(lib.trl_has_feature(encode_name(name)))


def shutdown() -> None:
    """Ends the threads that the library keeps between calls; it starts them again when it needs them."""
    call(lib.trl_runtime_shutdown)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


class Option:
    """A key of a configuration, as the library describes it."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def _text(self, function: Callable[..., int | None]) -> str:
        return text_at(function(self._pointer))

    def _of(self, function: Callable[..., int | None], trainer: str | None) -> str | None:
        return text_or_none(function(self._pointer, encode_name(trainer, "trainer")))

    @property
    def name(self) -> str:
        return self._text(lib.trl_option_name)

    @property
    def section(self) -> str:
        return self._text(lib.trl_option_section)

    @property
    def group(self) -> str:
        return self._text(lib.trl_option_group)

    @property
    def origin(self) -> str:
        return self._text(lib.trl_option_origin)

    @property
    def nullable(self) -> bool:
        return bool(lib.trl_option_nullable(self._pointer) == 1)

    @property
    def trainers(self) -> tuple[str, ...]:
        return _listed(self._text(lib.trl_option_trainers))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Older names, which are understood."""
        return _listed(self._text(lib.trl_option_aliases))

    @property
    def other_names(self) -> tuple[str, ...]:
        """Names that other tools have for it, which are not accepted."""
        return _listed(self._text(lib.trl_option_other_names))

    @property
    def since(self) -> str:
        return self._text(lib.trl_option_since)

    @property
    def unsupported_reason(self) -> str:
        return self._text(lib.trl_option_unsupported_reason)

    @property
    def ignored_reason(self) -> str:
        return self._text(lib.trl_option_ignored_reason)

    @property
    def taken(self) -> str:
        return self._text(lib.trl_option_taken)

    def type(self, trainer: str | None = None) -> int | None:
        """One of OptionType, or a number that a later version adds; of the table, or in one trainer, where it may differ.
        None for a trainer that lacks the option."""
        kind = int(lib.trl_option_type(self._pointer, encode_name(trainer, "trainer")))
        return None if kind < 0 else kind

    def default(self, trainer: str | None = None) -> str | None:
        """The default as canonical text."""
        return self._of(lib.trl_option_default, trainer)

    def accepted(self, trainer: str | None = None) -> str | None:
        """The values that it takes within its type; "" for any."""
        return self._of(lib.trl_option_accepted, trainer)

    def doc(self, trainer: str | None = None) -> str | None:
        return self._of(lib.trl_option_doc, trainer)

    def value(self, text: str) -> Any:
        """The Python value of a canonical text."""
        if text == "null":
            return None
        kind = self.type()
        if kind == OptionType.TEXT or kind == OptionType.CHOICE and not text.startswith("["):
            return text
        try:
            return json.loads(text)
        except ValueError:  # auto, for example
            return text

    def __repr__(self) -> str:
        return f"<Option {self.name}>"


def options() -> Iterator[Option]:
    """Walks the table of options."""
    pointer = lib.trl_option_next(None)
    while pointer:
        yield Option(pointer)
        pointer = lib.trl_option_next(pointer)


_by_name: dict[str, Option] = {}


def option(name: str) -> Option:
    """The option of a name, or of an older one."""
    if not _by_name:
        for found in options():
            _by_name.update(dict.fromkeys(found.aliases, found))
            _by_name[found.name] = found
    return _by_name[name]
