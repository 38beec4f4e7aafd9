// Writes tensors into a model, all of them or none.
#pragma once
#include <exception>
#include <functional>
#include <span>
#include <string>

#include "capi/serve_table.h"
#include "serve/weights/tensor_message.h"

namespace trl::serve {

// The tensors of a model are neither the old ones nor the new ones any more.
class Torn final : public std::exception {
 public:
  explicit Torn(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  const std::string why_;
};

// Writes the tensors, on the model's thread. Waits for calls of the host that use the model. Throws Refusal
// or Error, after which the model is as before; Torn if it is not.
void swap_tensors(const capi::ServeTable& table, trl_model* model, std::span<const SentTensor> tensors);

// Calls a function of the library until no call of the host uses the model. Throws Refusal(503) if that takes
// too long, and Error.
void call_when_free(const capi::ServeTable& table, const std::function<trl_status(trl_error**)>& call);

}  // namespace trl::serve
