"""Completions of prompts."""

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ._api import Status
from ._config import Options, config_of
from ._core import Handle, call, create, encode, int32s, kept, number_of, text_at, text_or_none, trampoline
from ._library import lib

TokenFunction = Callable[[int, int, str, float], int | bool | None]
Prompt = str | Sequence[int]


@trampoline("trl_token_fn")
def _token(host: TokenFunction | None, completion: int, token: int, text: int, size: int, log_probability: float) -> int:
    return 0 if host is None else number_of(host(completion, token, text_at(text, size), log_probability))


@dataclass(frozen=True)
class Completion:
    """A completion as it was when it was taken."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None  # None: it goes on
    json: str

    @property
    def details(self) -> dict[str, Any]:
        """What its JSON has: the above, the error of an aborted one, and log-probabilities (generate.logprobs)."""
        return json.loads(self.json)  # type: ignore[no-any-return]


def _take(completions: int) -> list[Completion]:
    """Copies completions and frees them."""
    found: list[Completion] = []
    size = ctypes.c_size_t()
    try:
        while text := lib.trl_completions_text(completions, len(found), ctypes.byref(size)):
            copied = text_at(text, size.value)
            ids = lib.trl_completions_tokens(completions, len(found), ctypes.byref(size))
            tokens = tuple(ids[: size.value])
            reason = text_or_none(lib.trl_completions_finish_reason(completions, len(found)))
            details = lib.trl_completions_json(completions, len(found), ctypes.byref(size))
            found.append(Completion(copied, tokens, reason, text_at(details, size.value)))
    finally:
        lib.trl_completions_destroy(completions)
    return found


def _prompt(prompt: Prompt) -> tuple[Any, ...]:
    """A prompt as text, size, ids and count."""
    if isinstance(prompt, str):
        data = prompt.encode()
        return data, len(data), None, 0
    return None, 0, *int32s(prompt)


class Generator(Handle):
    """Made by Model.generator. A token function gets the number of the completion, the token, its text and its
    log-probability (NaN without generate.logprobs), and ends that completion by a result that is true."""

    def __init__(self, pointer: int, parent: Handle) -> None:
        self._own(pointer, lib.trl_generator_destroy, parent)

    def generate(self, prompts: str | Sequence[str], options: Options = None, *,
                 on_token: TokenFunction | None = None) -> list[Completion]:
        """Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j."""
        data = [encode(prompt, "prompt") for prompt in ([prompts] if isinstance(prompts, str) else prompts)]
        with kept(on_token) as number:
            return _take(create(lib.trl_generator_generate, lib.trl_completions_destroy, self,
                                (ctypes.c_char_p * len(data))(*data), (ctypes.c_size_t * len(data))(*map(len, data)),
                                len(data), config_of(options), _token, number))

    def add(self, prompt: Prompt, options: Options = None) -> int:
        """Adds a request: a text or token ids. Returns the number of its first completion."""
        first = ctypes.c_size_t()
        call(lib.trl_generator_add, self, *_prompt(prompt), config_of(options), ctypes.byref(first))
        return first.value

    def step(self, on_token: TokenFunction | None = None) -> bool:
        """Computes a token of each completion that runs; False if there was nothing to do. What the function raises
        ends its completion alone, and is raised again when the step is done."""
        raised: list[BaseException] = []

        def told(completion: int, token: int, text: str, log_probability: float) -> int:
            assert on_token is not None
            try:
                return number_of(on_token(completion, token, text, log_probability))
            except BaseException as error:
                raised.append(error)
                return 1

        with kept(on_token and told) as number:
            try:
                return call(lib.trl_generator_step, self, _token, number) != Status.END
            finally:
                if raised:
                    raise raised[0]

    def extend(self, completion: int, prompt: Prompt, options: Options = None) -> None:
        """Continues a completion that was added with generate.keep, after more tokens."""
        call(lib.trl_generator_extend, self, completion, *_prompt(prompt), config_of(options))

    def cancel(self, first: int, count: int = 1) -> None:
        """Ends completions; their tokens so far can still be taken."""
        call(lib.trl_generator_cancel, self, first, count)

    def take(self, first: int, count: int = 1) -> list[Completion]:
        """Takes completions as they are."""
        return _take(create(lib.trl_generator_take, lib.trl_completions_destroy, self, first, count))

    def stream(self, prompt: Prompt, options: Options = None) -> Iterator[tuple[int, str]]:
        """The tokens of one completion and their texts, as they are computed. Other requests go on meanwhile; leaving
        the iterator ends this one."""
        first, done = self.add(prompt, options), False
        try:
            while not done:
                new: list[tuple[int, str]] = []

                def collect(completion: int, token: int, text: str, _: float, new: list[tuple[int, str]] = new) -> None:
                    if completion == first:
                        new.append((token, text))

                done = not self.step(collect)
                yield from new
        finally:
            self.cancel(first)
            self.take(first)

    def release_memory(self) -> None:
        """Gives the memory of keys and values back until completions go on."""
        call(lib.trl_generator_release_memory, self)
