"""Fine-tunes language models as Hugging Face TRL does, by libtrl.so.

Objects own what they hold of the library: use `with`, or close, or leave it to the garbage collector. Other threads run
while a call works. An exception of a function that the library calls is raised again by the call that it was in."""

from ._api import Answer, EventKind, LogLevel, OptionType, Progress, Status, TensorForm, TextForm, WriteKind
from ._config import Config
from ._data import Dataset, Tokenizer
from ._errors import (
    BusyError, CallbackError, CancelledError, ConfigError, DeviceError, DistributedError, Error, FormatError,
    InputOutputError, InternalError, InvalidArgumentError, NotFoundError, OutOfDeviceMemoryError, OutOfMemoryError, Place,
    UnsupportedError,
)
from ._generate import Completion, Generator
from ._library import load
from ._model import Model, convert
from ._options import Option, build_info, has_feature, option, options, shutdown, version, version_number
from ._runtime import Runtime, cancel_all
from ._serve import Server
from ._tensor import Tensor
from ._train import LATER, Evaluator, Event, Rollout, Trainer, check, plan

__all__ = [
    "LATER", "Answer", "BusyError", "CallbackError", "CancelledError", "Completion", "Config", "ConfigError", "Dataset",
    "DeviceError", "DistributedError", "Error", "Evaluator", "Event", "EventKind", "FormatError", "Generator",
    "InputOutputError", "InternalError", "InvalidArgumentError", "LogLevel", "Model", "NotFoundError", "Option",
    "OptionType", "OutOfDeviceMemoryError", "OutOfMemoryError", "Place", "Progress", "Rollout", "Runtime", "Server",
    "Status", "Tensor", "TensorForm", "TextForm", "Tokenizer", "Trainer", "UnsupportedError", "WriteKind", "build_info",
    "cancel_all", "check", "convert", "has_feature", "load", "option", "options", "plan", "shutdown", "version",
    "version_number",
]
