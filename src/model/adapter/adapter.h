// An adapter of a model: its own parameters, and their part in a forward. Parameters have the names of PEFT's
// files.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapter/target_modules.h"
#include "adapter/tensors.h"
#include "config/lora_config.h"
#include "kernels/kernels.h"
#include "model/layer/layer_context.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/parameter/parameter.h"

namespace trl::model {

// A module of a model as an adapter sees it: its name in transformers, and its parameters.
struct Slot {
  adapter::Module module = {};
  int64_t layer = -1;  // -1: before the first one; their number: after the last one
  kernels::Parameter* weight = nullptr;
  kernels::Parameter* bias = nullptr;  // null: none
  bool takes_rows = false;             // the input embedding, and the head of a language model
  bool takes_terms = false;            // can have low-rank terms
  int64_t stored_rows = -1;            // rows of a resized table in its files; -1: not resized
};

// The form of an encoded weight while an adapter is merged into it. saving: blocks whose numbers are computed
// on reading, which takes no memory and is slow; numbers: numbers of the weight's dtype, for computing.
enum class Merged { saving, numbers };

std::vector<adapter::Module> modules_of(const std::vector<Slot>& slots);

class Adapter {
 public:
  // type: of the adapter's own parameters, float32 or bfloat16; copies of the model's have the model's type,
  // and rows of tokens the wider of both. Their values are not set yet. slots must outlive the adapter.
  Adapter(std::string name, config::LoraConfig config, adapter::Selection selection,
          const std::vector<Slot>& slots, at::ScalarType type, at::Device device);

  const std::string& name() const { return name_; }
  uint64_t number() const { return number_; }  // from 1 on; no other adapter of this process has it
  uint64_t version() const;                    // a number that is larger after every change of its values
  at::ScalarType type() const { return type_; }
  const config::LoraConfig& config() const { return config_; }
  const adapter::Selection& selection() const { return selection_; }
  const std::vector<Slot>& slots() const { return slots_; }
  std::vector<Parameter*> parameters() const;  // in the order of the modules
  struct Named {
    std::string name;
    Parameter* parameter;
  };
  // All of its parameters under the names that they have in PEFT's model.
  std::vector<Named> named() const;
  // Call after a weight of the model was changed: the rest of a weight that terms began as a part of follows.
  void follow(const Parameter& weight) const;
  // Its own frozen embedding and head, which its files brought and which it uses instead of the model's.
  std::vector<Parameter*> kept_tables() const;
  // Its part in a forward, made once; valid until its values are set anew.
  const Wiring& wiring() const { return wiring_; }
  // Makes its replacements that are not trained keep converted copies as the model's parameters do.
  void keep_copies_as_model();

  // Sets the initial values of PEFT for this seed. olora and pissa take them out of the weights: a
  // forward with the adapter then computes with the remainder of the weights, in a copy. Throws
  // Error(invalid_config) if such a weight is stored in blocks.
  void start(uint64_t seed);
  void start(at::Generator generator);  // a generator that has drawn before (Model::generator)
  // Loads the values of a saved adapter: adapter_model.safetensors in a directory, as adapter::open_weights()
  // opens it.
  void load(const std::string& directory);

  // A tensor of its files, on the host; may share the parameter's memory.
  struct Stored {
    std::string name;
    at::Tensor values;
  };
  // The content of its files. Terms that began as a part of the weights are stored as plain LoRA of twice the
  // rank, which fits the original weights: its factors, and next to them the initial factors, subtracted.
  std::vector<Stored> stored() const;
  config::LoraConfig stored_config() const;
  // Tensors that PEFT's files hold in addition: the model's embedding and head, if the adapter is on an
  // embedding or these were resized.
  std::vector<Stored> tables() const;
  void restore(const std::vector<Stored>& stored);  // the tensors of stored()
  // Copies and freezes the values of an adapter with the same selection.
  void copy(const Adapter& of);

  // Merges the adapter into the model's own parameters until the result is destroyed: then they are restored
  // bit by bit from copies that it keeps. A weight that is stored in blocks keeps these, and has the form
  // `as`; none is quantised again. A head that is the embedding gets a separate weight for that time,
  // `untied`, if the adapter makes the two differ. Throws Error(unsupported) for lora_bias on a module
  // without a bias.
  std::shared_ptr<void> merged(Merged as, Parameter*& untied);

  // The first layer, as Slot::layer counts, in which a parameter of this adapter has a gradient.
  int64_t first_trained_layer() const;
  // Whether it only trains low-rank terms of projections in that layer.
  bool trains_only_terms(int64_t layer) const;

 private:
  // The low-rank terms of a module.
  struct Term {
    size_t slot;
    bool parameter;  // adapter::Target::parameter
    kernels::LowRank factors = {};
    // float32, on the host: the initial factors, which are a part of the weight.
    at::Tensor first_a = {}, first_b = {};
    Parameter* rest = nullptr;  // the weight minus that part
  };
  // A replacement of a weight or bias of the model.
  struct Replacement {
    size_t slot;
    bool bias;
    Parameter* own;
  };
  // An embedding or head that its files contain in addition and that differs from the model's.
  struct Table {
    size_t slot;
    std::unique_ptr<Parameter> own;
  };
  // The adapter's own rows of an embedding.
  struct Tokens {
    size_t slot;
    kernels::OwnRows rows;
  };
  void add(const adapter::Tensor& tensor, at::Device device);
  void take_tables(const adapter::AdapterFile& file);
  void keep_table(size_t slot, const at::Tensor& values);
  const Table* kept_table(size_t slot) const;  // null: the model's is used
  bool parts_tied_head() const;
  void add_tokens(const adapter::Tensor& tensor);
  Parameter* make(const adapter::Tensor& tensor, at::ScalarType type, at::Device device);
  void replace(const adapter::Tensor& tensor, bool bias);
  Parameter* original(const Replacement& one) const {
    return one.bias ? slots_[one.slot].bias : slots_[one.slot].weight;
  }
  Parameter* own_weight(size_t slot) const;  // null: the weight is not replaced
  size_t index_of(const Slot& slot) const { return static_cast<size_t>(&slot - slots_.data()); }
  void rewire();
  Term& term(size_t slot);
  void start(Term& term, class LoraStart& values);
  struct LoraFactors drawn(const Term& term, class LoraStart& values) const;
  void keep_rest(Term& term, const at::Tensor& a, const at::Tensor& b);
  void write_rest(const Term& term) const;
  bool is_part_of_weights() const;
  void start_again(const std::string& directory);
  kernels::Projection projection(const Term& term) const;

  const std::string name_;
  const uint64_t number_;
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
  Wiring wiring_;
  std::optional<tensor::MappedPages> blas_pages_;
};

}  // namespace trl::model
