// An adapter of a model: parameters of its own, and what it puts in the places of the model's slots while it
// is in use. Parameters have the names of PEFT's files.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "adapter/tensors.h"
#include "config/lora_config.h"
#include "model/slot.h"
#include "tensor/parameter/parameter.h"

namespace trl::model {

using tensor::Parameter;

// The form of an encoded weight while an adapter is merged into it. saving: blocks, whose numbers are made
// where they are read, which takes no memory and is slow; numbers: those of the weight's dtype, to compute
// with.
enum class Merged { saving, numbers };

class Adapter {
 public:
  // type: of the parameters that are the adapter's own, float32 or bfloat16; copies of the model's have
  // theirs, and rows of tokens the wider of both. Their values are not set yet. slots outlive the adapter.
  Adapter(std::string name, config::LoraConfig config, adapter::Selection selection,
          const std::vector<Slot>& slots, at::ScalarType type, at::Device device);

  const std::string& name() const { return name_; }
  at::ScalarType type() const { return type_; }
  const config::LoraConfig& config() const { return config_; }
  const adapter::Selection& selection() const { return selection_; }
  const std::vector<Slot>& slots() const { return slots_; }
  std::vector<Parameter*> parameters() const;  // in the order of the modules
  // Frozen: the embedding and head of its own that its files brought, which it computes with instead of the
  // model's.
  std::vector<Parameter*> kept_tables() const;

  // The values that PEFT starts with for this seed. olora and pissa take them out of the weights: the model
  // then computes with what is left of those, in a copy, while the adapter is in use. Throws
  // Error(invalid_config) where such a weight is stored in blocks.
  void start(uint64_t seed);
  void start(at::Generator generator);  // that has drawn before (Model::generator)
  // Those of a saved adapter: adapter_model.safetensors in a directory, as adapter::open_weights() opens it.
  void load(const std::string& directory);

  // A tensor of its files, on the host; it may be the parameter's own memory.
  struct Stored {
    std::string name;
    at::Tensor values;
  };
  // What its files hold. What began as a part of the weights is stored as plain LoRA of twice the rank, which
  // fits the weights as they were: its factors, and beside them those that it began with, subtracted.
  std::vector<Stored> stored() const;
  config::LoraConfig stored_config() const;
  // What PEFT's files hold beside that: the model's embedding and head, where the adapter is on an embedding
  // or they were given other rows.
  std::vector<Stored> tables() const;
  void restore(const std::vector<Stored>& stored);  // from those of stored(). While it is not in use
  void copy(const Adapter& of);  // frozen, the values of one with the same selection. While none is in use

  // The model's own parameters become what the adapter makes of them, until the result goes: then they are as
  // before, bit by bit, for which it keeps copies of them. A weight that is stored in blocks keeps these, and
  // is what `as` says; none is quantised again. A head that is the embedding has a weight of its own for that
  // time, where the adapter makes two of them. Throws Error(unsupported) for lora_bias on a module without a
  // bias. While the adapter is not in use.
  std::shared_ptr<void> merged(Merged as);

  // The first layer, as Slot::layer counts, where something of this adapter has a gradient.
  int64_t first_trained_layer() const;
  // Whether what it trains there are low-rank terms of projections alone.
  bool trains_only_terms(int64_t layer) const;

 private:
  friend class Adapters;
  // The low-rank terms of a module.
  struct Term {
    size_t slot;
    bool parameter;  // adapter::Target::parameter
    kernels::LowRank factors = {};
    at::Tensor first_a = {}, first_b = {};  // float32, on the host: the part of the weight that it began as
    Parameter* rest = nullptr;              // of the weight
  };
  // What replaces a parameter of the model.
  struct Replacement {
    Parameter** place;
    Parameter* own;
    int64_t layer;
    Parameter* before = nullptr;  // while the adapter is in use
  };
  // An embedding or head that its files hold beside it and that is not the model's.
  struct Table {
    size_t slot;
    std::unique_ptr<Parameter> own;
  };
  // Rows of an embedding that are its own.
  struct Tokens {
    size_t slot;
    kernels::OwnRows rows;
  };
  void add(const adapter::Tensor& tensor, at::Device device);
  void take_tables(const adapter::AdapterFile& file);
  void keep_table(size_t slot, const at::Tensor& values);
  const Table* kept_table(size_t slot) const;  // null: the model's counts
  bool parts_tied_head() const;
  void add_tokens(const adapter::Tensor& tensor);
  Parameter* make(const adapter::Tensor& tensor, at::ScalarType type, at::Device device);
  void replace(Parameter** place, const adapter::Tensor& tensor);
  Term& term(size_t slot);
  void start(Term& term, class LoraStart& values);
  struct LoraFactors drawn(const Term& term, class LoraStart& values) const;
  void keep_rest(Term& term, const at::Tensor& a, const at::Tensor& b);
  bool is_part_of_weights() const;
  void start_again(const std::string& directory);
  // From here on the layers compute with it. key: of the dropout of one forward; null: there is none.
  kernels::Projection projection(const Term& term) const;
  void enter(const uint64_t* key);
  void leave();

  const std::string name_;
  const at::ScalarType type_;
  const config::LoraConfig config_;
  const adapter::Selection selection_;
  const std::vector<Slot>& slots_;
  std::vector<adapter::Tensor> tensors_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Parameter>> rests_;
  std::vector<Term> terms_;
  std::vector<Table> tables_;
  std::vector<Replacement> replaced_;
  std::vector<Tokens> tokens_;
};

}  // namespace trl::model
