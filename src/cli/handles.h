// Owners of the C handles, and the one way this program fails: Failure, with the text for stderr and the exit
// code.
#pragma once
#include <trl.h>

#include <stdexcept>
#include <string>

#include "base/c_handle.h"

namespace trl::cli {

// Exit codes other than 0; an interrupted run ends with 128 + the signal.
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

struct Failure : std::runtime_error {
  Failure(int exit_code, const std::string& message) : std::runtime_error(message), code(exit_code) {}
  int code;
};

template <typename T, void (*kDestroy)(T*)>
using Handle = base::CHandle<T, kDestroy>;

using Error = Handle<trl_error, trl_error_destroy>;
using Runtime = Handle<trl_runtime, trl_runtime_destroy>;
using Dataset = Handle<trl_dataset, trl_dataset_destroy>;
using Tokenizer = Handle<trl_tokenizer, trl_tokenizer_destroy>;
using Trainer = Handle<trl_trainer, trl_trainer_destroy>;
using Evaluator = Handle<trl_evaluator, trl_evaluator_destroy>;
using Model = Handle<trl_model, trl_model_destroy>;
using Generator = Handle<trl_generator, trl_generator_destroy>;
using Completions = Handle<trl_completions, trl_completions_destroy>;

// Throws for an error: a wrong key or value is a usage error, anything else a failure.
inline void check(trl_status status, const Error& error) {
  if (status >= 0) return;
  throw Failure(status == TRL_E_INVALID_CONFIG ? kUsage : kFailed, trl_error_message(error.get()));
}

// Returns what a function writes into room of its caller's; the first call asks how much there is.
template <class Buffer, class Call>
Buffer filled(Call call) {
  Error error;
  Buffer out;
  size_t size = 0;
  for (int i = 0; i < 2; ++i) {
    out.resize(size);
    check(call(out.data(), out.size(), &size, error.out()), error);
  }
  return out;
}

class Config : public Handle<trl_config, trl_config_destroy> {
 public:
  Config() {
    Error error;
    check(trl_config_create(out(), error.out()), error);
  }
};

inline void set(const Config& config, const char* key, const std::string& value) {
  Error error;
  check(trl_config_set(config.get(), key, value.c_str(), error.out()), error);
}

inline void unset(const Config& config, const char* key) {
  Error error;
  check(trl_config_unset(config.get(), key, error.out()), error);
}

// Returns "default", "set" for a flag, or the place in a file.
inline std::string origin_of(const Config& config, const char* key) {
  Error error;
  const char* origin = nullptr;
  check(trl_config_get_origin(config.get(), key, &origin, error.out()), error);
  return origin;
}

// Returns a key's canonical text; empty for null.
inline std::string get(const Config& config, const char* key) {
  Error error;
  const char* value = nullptr;
  check(trl_config_get(config.get(), key, &value, error.out()), error);
  const std::string text = value;
  return text == "null" ? std::string() : text;
}

}  // namespace trl::cli
