"""The table of options, and what this build is."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ._api import OptionType
from ._core import call, text_at, text_or_none
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
    return bool(lib.trl_has_feature(name.encode()))


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
    def type(self) -> int:
        """One of OptionType, or a number that a later version adds."""
        return int(lib.trl_option_type(self._pointer))

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

    def default(self, trainer: str | None = None) -> str | None:
        """The default as canonical text, of the table or of one trainer; None for a trainer that lacks the option."""
        if trainer is None:
            return self._text(lib.trl_option_default)
        return text_or_none(lib.trl_option_default_for(self._pointer, trainer.encode()))

    def accepted(self, trainer: str | None = None) -> str | None:
        """The values that it takes within its type; "" for any."""
        if trainer is None:
            return self._text(lib.trl_option_accepted)
        return text_or_none(lib.trl_option_accepted_for(self._pointer, trainer.encode()))

    def doc(self, trainer: str | None = None) -> str | None:
        if trainer is None:
            return self._text(lib.trl_option_doc)
        return text_or_none(lib.trl_option_doc_for(self._pointer, trainer.encode()))

    def value(self, text: str) -> Any:
        """The Python value of a canonical text."""
        if text == "null":
            return None
        if self.type == OptionType.TEXT or self.type == OptionType.CHOICE and not text.startswith("["):
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


_SCHEMA_TYPES = {
    OptionType.BOOLEAN: ["boolean"],
    OptionType.INTEGER: ["integer"],
    OptionType.NUMBER: ["number"],
    OptionType.TEXT: ["string"],
    OptionType.CHOICE: ["string"],
    OptionType.LIST: ["array", "string"],
    OptionType.MAP: ["object", "string"],
}


def _accepts(kind: int, accepted: str) -> dict[str, Any]:
    """The range of a number or the values of a choice; nothing for other descriptions."""
    if kind == OptionType.CHOICE:
        return {"enum": accepted.split("|")}
    number = r"(-?[\d.]+)"
    if match := re.fullmatch(rf"(>=?) {number}", accepted):
        return {"minimum" if match[1] == ">=" else "exclusiveMinimum": json.loads(match[2])}
    if match := re.fullmatch(rf"([\[(]){number}, {number}([\])])", accepted):
        low = "minimum" if match[1] == "[" else "exclusiveMinimum"
        high = "maximum" if match[4] == "]" else "exclusiveMaximum"
        return {low: json.loads(match[2]), high: json.loads(match[3])}
    return {}


def schema(trainer: str | None = None) -> dict[str, Any]:
    """A JSON schema of a whole configuration, or of that of one trainer, made from the table of options."""
    properties: dict[str, Any] = {}
    for found in options():
        if trainer is not None and trainer not in found.trainers and found.trainers:
            continue
        of = trainer if found.trainers else None
        kind, accepted = found.type, found.accepted(of) or ""
        types = list(_SCHEMA_TYPES[OptionType(kind)])
        if accepted.startswith(("bytes", "auto|")):
            types.append("string")
        item: dict[str, Any] = {"description": found.doc(of), "type": types, **_accepts(kind, accepted)}
        item["default"] = found.value(found.default(of) or "null")
        if isinstance(item["default"], list) and "enum" in item:  # one or several, in this trainer
            types.append("array")
            one = {"enum": item.pop("enum")}
            item["anyOf"] = [one, {"type": "array", "items": one}]
        if found.nullable:
            types.append("null")
            if "enum" in item:
                item["enum"].append(None)
        properties[found.name] = item
        for alias in found.aliases:
            properties[alias] = {"$ref": "#/properties/" + found.name, "deprecated": True}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
