// Numbers that take the place of a model's, all of them or none.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

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

// Memory for a second set of a model's numbers, which changes places with that of the model: first the new
// numbers are in it, afterwards the old ones. It stays for the next update, because taking new pages costs
// more than filling them.
class StagedTensors {
 public:
  // The arguments outlive this.
  StagedTensors(const capi::ServeTable& table, trl_model* model) : table_(table), model_(model) {}
  // Takes memory for tensors that have none yet. On the model's thread. Throws Refusal and Error.
  void make_room(std::span<const SentTensor> tensors);
  // Copies the numbers, which somebody else may be changing. Throws Refusal(400) for a tensor that is not as
  // it was sent.
  void fill(std::span<const SentTensor> tensors, base::ThreadPool& pool);
  // Gives the model these tensors, on its thread. Waits for calls of the host that use it. Throws Refusal or
  // Error, after which the model is as before; Torn if it is not.
  void swap(std::span<const SentTensor> tensors);
  void release() { copies_.clear(); }  // gives the memory back

 private:
  LentTensor& copy_of(const SentTensor& tensor) const;
  void exchange(const SentTensor& tensor);
  void write_to_device(const SentTensor& tensor);
  void undo(std::span<const SentTensor> tensors);
  const capi::ServeTable& table_;
  trl_model* const model_;
  std::map<std::string, std::unique_ptr<LentTensor>, std::less<>> copies_;
};

// Calls a function of the library until no call of the host uses the model. Throws Refusal(503) if that takes
// too long, and Error.
void call_when_free(const capi::ServeTable& table, const std::function<trl_status(trl_error**)>& call);

}  // namespace trl::serve
