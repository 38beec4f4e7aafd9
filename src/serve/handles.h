// Owners of the C handles that the server works with, and the one way in which their calls fail here.
#pragma once
#include <string>

#include "base/c_handle.h"
#include "base/error.h"
#include "trl/trl.h"

namespace trl::serve {

using ErrorHandle = base::CHandle<trl_error, trl_error_destroy>;
using ConfigHandle = base::CHandle<trl_config, trl_config_destroy>;
using RuntimeHandle = base::CHandle<trl_runtime, trl_runtime_destroy>;
using ModelHandle = base::CHandle<trl_model, trl_model_destroy>;
using GeneratorHandle = base::CHandle<trl_generator, trl_generator_destroy>;
using TokenizerHandle = base::CHandle<trl_tokenizer, trl_tokenizer_destroy>;
using CompletionsHandle = base::CHandle<trl_completions, trl_completions_destroy>;

// Throws trl::Error with the status, message and key of a call that failed.
inline void check(trl_status status, const ErrorHandle& error) {
  if (status >= 0) return;
  const char* const key = trl_error_key(error.get());
  throw Error(static_cast<Status>(status), trl_error_message(error.get()), key == nullptr ? "" : key);
}

// Returns the text that a call writes into its caller's buffer; the first call asks for its size.
template <class Buffer, class Call>
Buffer filled(Call call) {
  Buffer out;
  size_t size = 0;
  for (int i = 0; i < 2; ++i) {
    out.resize(size);
    ErrorHandle error;
    check(call(out.data(), out.size(), &size, error.out()), error);
  }
  return out;
}

}  // namespace trl::serve
