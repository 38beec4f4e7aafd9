// Weights that take the place of others without a copy.
#pragma once
#include "engine/host.h"
#include "engine/model.h"

namespace trl::engine {

// A model of Engine::open_model() or of a trainer, each of which is one.
class ExchangingModel : public Model {
 public:
  // other: a copy of this weight by read_tensor(), whose numbers may have been overwritten since. Gives the
  // weight its numbers, and it those that the weight had, which lie elsewhere now. On an error both are as
  // before.
  virtual int32_t exchange_tensor(std::string_view name, HeldTensor& other, ErrorSink& error) noexcept = 0;

 protected:
  ~ExchangingModel() = default;
};

}  // namespace trl::engine
