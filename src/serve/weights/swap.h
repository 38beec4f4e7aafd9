// Writes tensors into a model, all of them or none.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads/thread_pool.h"
#include "capi/serve_table.h"
#include "serve/weights/lent_tensor.h"
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

// The numbers that tensors had before others took their place.
class TensorsBefore {
 public:
  // Takes memory for them. The arguments outlive this.
  TensorsBefore(std::span<const SentTensor> tensors, base::ThreadPool& pool);
  // Keeps those of a tensor. Throws as call_when_free().
  void keep(size_t tensor, const capi::ServeTable& table, trl_model* model);
  // Writes those of the first tensors back. Throws Torn.
  void write_back(size_t count, const capi::ServeTable& table, trl_model* model);

 private:
  struct Kept {
    const SentTensor* tensor;
    char* bytes;
    std::unique_ptr<LentTensor> copy;  // instead, of a tensor on a device
  };
  base::ThreadPool& pool_;
  std::unique_ptr<char[]> memory_;
  std::vector<Kept> all_;
};

// Writes the tensors, on the model's thread. Waits for calls of the host that use the model. before: of these
// tensors. Throws Refusal or Error, after which the model is as before; Torn if it is not.
void swap_tensors(const capi::ServeTable& table, trl_model* model, std::span<const SentTensor> tensors,
                  TensorsBefore& before);

// Calls a function of the library until no call of the host uses the model. Throws Refusal(503) if that takes
// too long, and Error.
void call_when_free(const capi::ServeTable& table, const std::function<trl_status(trl_error**)>& call);

}  // namespace trl::serve
