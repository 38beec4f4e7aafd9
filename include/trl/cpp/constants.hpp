// The constants of trl/trl.h, all of one type; made from it by bindings/generate.py.
#ifndef TRL_CPP_CONSTANTS_HPP
#define TRL_CPP_CONSTANTS_HPP

#include <cstdint>

#include "../trl.h"

namespace trl {

namespace Status {
constexpr std::int32_t ok = TRL_OK;
constexpr std::int32_t end = TRL_END;
constexpr std::int32_t later = TRL_LATER;
constexpr std::int32_t invalid_argument = TRL_E_INVALID_ARGUMENT;
constexpr std::int32_t invalid_config = TRL_E_INVALID_CONFIG;
constexpr std::int32_t not_found = TRL_E_NOT_FOUND;
constexpr std::int32_t io = TRL_E_IO;
constexpr std::int32_t format = TRL_E_FORMAT;
constexpr std::int32_t unsupported = TRL_E_UNSUPPORTED;
constexpr std::int32_t out_of_memory = TRL_E_OUT_OF_MEMORY;
constexpr std::int32_t out_of_device_memory = TRL_E_OUT_OF_DEVICE_MEMORY;
constexpr std::int32_t device = TRL_E_DEVICE;
constexpr std::int32_t distributed = TRL_E_DISTRIBUTED;
constexpr std::int32_t cancelled = TRL_E_CANCELLED;
constexpr std::int32_t busy = TRL_E_BUSY;
constexpr std::int32_t callback = TRL_E_CALLBACK;
constexpr std::int32_t internal = TRL_E_INTERNAL;
}  // namespace Status

namespace OptionType {
constexpr std::int32_t boolean = TRL_TYPE_BOOLEAN;
constexpr std::int32_t integer = TRL_TYPE_INTEGER;
constexpr std::int32_t number = TRL_TYPE_NUMBER;
constexpr std::int32_t text = TRL_TYPE_TEXT;
constexpr std::int32_t choice = TRL_TYPE_CHOICE;
constexpr std::int32_t list = TRL_TYPE_LIST;
constexpr std::int32_t map = TRL_TYPE_MAP;
}  // namespace OptionType

namespace LogLevel {
constexpr std::int32_t debug = TRL_LOG_DEBUG;
constexpr std::int32_t info = TRL_LOG_INFO;
constexpr std::int32_t warning = TRL_LOG_WARNING;
constexpr std::int32_t error = TRL_LOG_ERROR;
}  // namespace LogLevel

namespace Progress {
constexpr std::int32_t stop = TRL_PROGRESS_STOP;
}  // namespace Progress

namespace TextForm {
constexpr std::int32_t answer = TRL_TEXT_ANSWER;
constexpr std::int32_t conversation = TRL_TEXT_CONVERSATION;
constexpr std::int32_t as_is = TRL_TEXT_AS_IS;
}  // namespace TextForm

namespace EventKind {
constexpr std::int32_t train_begin = TRL_ON_TRAIN_BEGIN;
constexpr std::int32_t step = TRL_ON_STEP;
constexpr std::int32_t log = TRL_ON_LOG;
constexpr std::int32_t evaluate = TRL_ON_EVALUATE;
constexpr std::int32_t save = TRL_ON_SAVE;
constexpr std::int32_t epoch = TRL_ON_EPOCH;
constexpr std::int32_t train_end = TRL_ON_TRAIN_END;
}  // namespace EventKind

namespace Answer {
constexpr std::int32_t stop = TRL_EVENT_STOP;
constexpr std::int32_t save = TRL_EVENT_SAVE;
constexpr std::int32_t evaluate = TRL_EVENT_EVALUATE;
}  // namespace Answer

namespace WriteKind {
constexpr std::int32_t data = TRL_WRITE_DATA;
constexpr std::int32_t done = TRL_WRITE_DONE;
constexpr std::int32_t dropped = TRL_WRITE_DROPPED;
}  // namespace WriteKind

namespace TensorForm {
constexpr std::int32_t copy = TRL_TENSOR_COPY;
constexpr std::int32_t view = TRL_TENSOR_VIEW;
constexpr std::int32_t gradient = TRL_TENSOR_GRADIENT;
}  // namespace TensorForm

}  // namespace trl

#endif  // TRL_CPP_CONSTANTS_HPP
