"""Trainers, what they tell, and what they ask the host for."""

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ._api import EventKind, Status
from ._config import Config, Options, config_of
from ._core import (
    Handle, ask_json, ask_text, call, create, encode_json, encode_name, encode_path, forget, int32s, keep, kept,
    number_of, reward_failed, text_or_none, trampoline,
)
from ._data import Dataset
from ._library import lib
from ._model import Model
from ._runtime import Runtime

Path = str | os.PathLike[str]
LATER = Status.LATER


def _metrics(pointer: int | None) -> dict[str, float]:
    """A copy of the numbers of a trl_metrics."""
    numbers: dict[str, float] = {}
    value = ctypes.c_double()
    name = lib.trl_metrics_next(pointer, None)
    while name:
        key = ctypes.string_at(name)
        lib.trl_metrics_get(pointer, key, ctypes.byref(value))
        numbers[key.decode()] = value.value
        name = lib.trl_metrics_next(pointer, key)
    return numbers


def _measure(function: Callable[..., int], *arguments: Any) -> dict[str, float] | None:
    """The numbers that a function gives by its last parameter but one; None if it says that nothing more comes."""
    out = ctypes.c_void_p()
    status = call(function, *arguments, ctypes.byref(out))
    return None if status == Status.END else _metrics(out.value)


class Event:
    """What happens in a run: a kind, which is one of EventKind or a number that a later version adds, and numbers."""

    def __init__(self, kind: int, pointer: int) -> None:
        self.kind: int = EventKind(kind) if kind in EventKind.__members__.values() else kind
        self.metrics = _metrics(pointer)
        self._pointer: int | None = pointer

    def text(self, name: str) -> str | None:
        """A text, such as the path of a save; only while the function that got the event runs."""
        if self._pointer is None:
            raise ValueError("an event has texts only while the function that got it runs")
        return text_or_none(lib.trl_metrics_text(self._pointer, encode_name(name)))

    def __repr__(self) -> str:
        return f"<Event {self.kind!r} {self.metrics}>"


class Rollout:
    """Rows that a trainer asks the host about; valid until the function returns, or until finish."""

    def __init__(self, pointer: int) -> None:
        self._pointer: int | None = pointer

    @property
    def _handle(self) -> int:
        if self._pointer is None:
            raise ValueError("this rollout is over")
        return self._pointer

    def __len__(self) -> int:
        return int(lib.trl_rollout_count(self._handle))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """What is known of a row."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return ask_json(lib.trl_rollout_get, self._handle, index)  # type: ignore[no-any-return]

    def set_reward(self, index: int, reward: float | None) -> None:
        """None: the function does not score this completion."""
        call(lib.trl_rollout_set_reward, self._handle, index, float("nan") if reward is None else reward)

    def set_completion(self, index: int, token_ids: Sequence[int], *, log_probs: Sequence[float] | None = None,
                       written: Sequence[bool] | None = None, columns: Mapping[str, Any] | None = None) -> None:
        count = len(token_ids)
        if any(len(values) != count for values in (log_probs, written) if values is not None):
            raise ValueError(f"log_probs and written have one value for each of the {count} token ids")
        call(lib.trl_rollout_set_completion, self._handle, index, *int32s(token_ids),
             None if log_probs is None else (ctypes.c_float * count)(*log_probs),
             None if written is None else (ctypes.c_uint8 * count)(*map(bool, written)),
             None if columns is None else encode_json(columns))

    def set_value(self, index: int, name: str, value: Any) -> None:
        call(lib.trl_rollout_set_value, self._handle, index, encode_name(name), encode_json(value))

    def log(self, name: str, value: float) -> None:
        """Adds a value to the metrics of the step."""
        call(lib.trl_rollout_log, self._handle, encode_name(name), value)

    def finish(self, failure: str | None = None) -> None:
        """Ends a rollout whose function returned LATER, from any thread."""
        call(lib.trl_rollout_finish, self._handle, encode_name(failure))
        self._pointer = None


EventFunction = Callable[[Event], int | None]
RolloutFunction = Callable[[Rollout], int | None]
RewardFunction = Callable[[Rollout], Iterable[float | None] | int | None]


@trampoline("trl_event_fn")
def _event(host: EventFunction | None, kind: int, metrics: int) -> int:
    if host is None:
        return 0
    event = Event(kind, metrics)
    try:
        return number_of(host(event))
    finally:
        event._pointer = None


def _answered(host: RewardFunction, pointer: int) -> int:
    rollout, answer = Rollout(pointer), None
    try:
        answer = host(rollout)
        if answer is None or isinstance(answer, int):
            return answer or Status.OK
        for index, reward in enumerate(answer):
            rollout.set_reward(index, reward)
        return Status.OK
    finally:
        if not isinstance(answer, int) or answer != LATER:
            rollout._pointer = None


@trampoline("trl_rollout_fn")
def _rollout(host: RewardFunction, pointer: int) -> int:
    return _answered(host, pointer)


@trampoline("trl_rollout_fn")
def _reward(host: RewardFunction, pointer: int) -> int:
    """The library is told why a reward failed, and decides whether that ends the call."""
    try:
        return _answered(host, pointer)
    except Exception as error:
        try:
            Rollout(pointer).finish(f"{type(error).__name__}: {error}".replace("\0", " "))
        except Exception:  # it is over, or the text is not Unicode
            raise error
        reward_failed(error)
        return LATER


class Trainer(Handle):
    """A run of the method that its configuration names."""

    def __init__(self, config: Options, train: Dataset, evaluation: Dataset | None = None, *,
                 runtime: Runtime | None = None) -> None:
        pointer = create(lib.trl_trainer_create, lib.trl_trainer_destroy, runtime, config_of(config), train, evaluation)
        self._own(pointer, lib.trl_trainer_destroy, runtime, train, evaluation)

    def train(self, on_event: EventFunction | None = None) -> bool:
        """Trains to the end, or until on_event answers Answer.STOP; False if the run was complete before."""
        with kept(on_event) as number:
            return call(lib.trl_trainer_train, self, _event, number) != Status.END

    def step(self) -> dict[str, float] | None:
        """One optimizer step and its numbers; None when nothing is left."""
        return _measure(lib.trl_trainer_step, self)

    def backward(self) -> dict[str, float] | None:
        """The first half of a step, and the numbers that are known then; None when nothing is left. Gradients can be
        read until update (Model.read_tensor)."""
        return _measure(lib.trl_trainer_backward, self)

    def update(self, apply: bool = True) -> dict[str, float]:
        """The second half, and the numbers of the step; apply=False leaves the weights and the optimizer as they are."""
        return _measure(lib.trl_trainer_update, self, apply) or {}

    def set_learning_rate(self, rate: float | None) -> None:
        """Sets the learning rate of the next steps; None: that of the schedule. From any thread, and in callbacks."""
        call(lib.trl_trainer_set_learning_rate, self, float("nan") if rate is None else rate)

    def evaluate(self, rows: Dataset | None = None) -> dict[str, float]:
        """Evaluates on the evaluation rows, or on others, which the state of the run does not tell of."""
        return _measure(lib.trl_trainer_evaluate, self, rows) or {}

    def save(self, path: Path | None = None, options: Options = None) -> None:
        """Saves the model, or what save.kind says; None: into output_dir."""
        call(lib.trl_trainer_save, self, encode_path(path), config_of(options))

    def add_reward(self, name: str, function: RewardFunction) -> None:
        """Adds a function that rewards the rows of a rollout. It returns a reward for each (None: no reward), or sets
        them itself and returns None, or returns LATER and answers from another thread."""
        call(lib.trl_trainer_add_reward, self, encode_name(name), _reward, keep(self, function), forget)

    def set_rollout(self, function: RolloutFunction) -> None:
        """Has function write the completions of a rollout (set_completion)."""
        call(lib.trl_trainer_set_rollout, self, _rollout, keep(self, function), forget)

    def set_tools(self, function: RolloutFunction) -> None:
        """Has function answer the tools that completions call (set_value)."""
        call(lib.trl_trainer_set_tools, self, _rollout, keep(self, function), forget)

    def cancel(self) -> None:
        """Ends the call that runs on this trainer, or else the next one, with CancelledError; from any thread."""
        lib.trl_trainer_cancel(self._handle)

    def pause(self) -> None:
        """Holds the call that runs on this trainer, or else the next one, until resume; from any thread."""
        lib.trl_trainer_pause(self._handle)

    def resume(self) -> None:
        lib.trl_trainer_resume(self._handle)

    def describe(self) -> dict[str, Any]:
        """The state of the training, as in trainer_state.json, after the last step that is done; from any thread, and in
        callbacks."""
        return ask_json(lib.trl_trainer_describe, self)  # type: ignore[no-any-return]

    def integers(self, name: str) -> list[int]:
        """Integers of a name: global_step, max_steps, vocab_size, parameter_count, trained_parameter_count,
        eos_token_ids. From any thread, and in callbacks."""
        capacity = 8
        while True:
            values, count = (ctypes.c_int64 * capacity)(), ctypes.c_size_t()
            call(lib.trl_trainer_get_integers, self, encode_name(name), values, capacity, ctypes.byref(count))
            if count.value <= capacity:
                return values[: count.value]
            capacity = count.value

    def model(self) -> Model:
        """The model of the run, with its weights as they are: its tensors, scores, generators and their adapters."""
        return Model._from_trainer(self)


def plan(config: Options, train: Dataset | None = None, *, runtime: Runtime | None = None) -> tuple[dict[str, Any], str]:
    """The memory, time and disk that a trainer of this configuration needs: as numbers, and as text."""
    owner = runtime or Runtime()  # of the texts, until they are copied
    numbers, text = ctypes.c_char_p(), ctypes.c_char_p()
    call(lib.trl_trainer_plan, owner, config_of(config), train, ctypes.byref(numbers), ctypes.byref(text))
    return json.loads(numbers.value or b"{}"), (text.value or b"").decode()


def check(config: Options, *, runtime: Runtime | None = None) -> None:
    """Checks a run as a trainer does before it reads rows and weights, and creates nothing."""
    call(lib.trl_trainer_check, runtime or Runtime(), config_of(config))


class Evaluator(Handle):
    """A model that is measured on rows, without a run."""

    def __init__(self, config: Options, *, runtime: Runtime | None = None) -> None:
        pointer = create(lib.trl_evaluator_create, lib.trl_evaluator_destroy, runtime, config_of(config))
        self._own(pointer, lib.trl_evaluator_destroy, runtime)

    def evaluate(self, rows: Dataset) -> dict[str, float]:
        """The numbers of an evaluation within a run, under the same names."""
        return _measure(lib.trl_evaluator_evaluate, self, rows) or {}

    def complete(self) -> list[dict[str, Any]]:
        """Completes sample_prompts."""
        return json.loads(ask_text(lib.trl_evaluator_complete, self))  # type: ignore[no-any-return]
