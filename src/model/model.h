// A causal language model made of decoder layers: the only one, for every family, whose differences are in
// the table (config/families.h). forward() returns hidden states and changes no weight.
#pragma once
#include <ATen/ATen.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "config/model_options.h"
#include "config/recompute.h"
#include "engine/trainer.h"
#include "io/safetensors.h"
#include "kernels/head/head.h"
#include "kernels/kernels.h"
#include "model/adapter/adapters.h"
#include "model/decoding/kv_memory.h"
#include "model/decoding/narrow_weights.h"
#include "model/files/open.h"
#include "model/layer/layer_context.h"
#include "model/loader/loader.h"
#include "tensor/parameter/parameter.h"

namespace trl::model {

using tensor::Parameter;

struct ForwardInput {
  at::Tensor input_ids;     // int32 [tokens]
  at::Tensor position_ids;  // int32 [tokens]
  kernels::SegmentsPtr segments;
  at::Tensor states = {};  // the result of Model::frozen_states for the whole input, or undefined
  // For a part of a batch, which is computed as it is within the whole: the index of its first token there,
  // on which random numbers depend, and the number of positions that the whole reaches (0: the input's own),
  // on which some rotary embeddings depend.
  int64_t first = 0, reach = 0;
};

struct ForwardOptions {
  // The type of linear layers and attention; bfloat16 over float32 weights is autocast. bfloat16 weights
  // compute in bfloat16.
  at::ScalarType compute = at::kFloat;
  config::Recompute recompute = {};                 // applies to the decoder layers, in backward
  kernels::Noise noise = {};                        // added to the embeddings
  kernels::AttentionPluginPtr attention = nullptr;  // null: the built-in one
  bool router_loss = false;                         // compute the loss of a mixture of experts
  int64_t router_tokens = 0;                        // only this many first tokens have that loss; 0: all
  // Training: the seed of dropout, which identifies the place in the run (base::counter_seed); empty: no
  // dropout.
  std::optional<uint64_t> random = {};
  std::optional<const Adapter*> adapter = {};  // null: the model without adapters; empty: the one in use
  TileSizes tiles = {};
  // Gives each row the bits that Model::extend() gives it: products whose rows are independent
  // (kernels::IndependentRows). Fused kernels with the built-in attention and independent documents only.
  bool as_generated = false;
};

// The head that computes logits, or scores, from hidden states, and an adapter's rows of it.
struct UsedHead {
  Parameter* weight = nullptr;
  const kernels::OwnRows* rows = nullptr;
  const kernels::NarrowWeight* narrow = nullptr;  // a copy that logits are computed with, or null
};

struct Output {
  at::Tensor hidden;            // [tokens, hidden], after the final norm
  at::Tensor router_loss = {};  // float32 scalar, if requested and the family has routers
  UsedHead head = {};           // which these hidden states are for
};

// The facts that are known about a model before its weights are read.
struct Outline {
  ModelConfig config;
  at::ScalarType dtype;  // the type that the weights will have
};

class Model {
 public:
  // from: the files of Hugging Face, or a GGUF file. dtype: "float32", "bfloat16", or "auto": the type in
  // config.json or else of the embedding's tensor; float16 and block types become float32; "keep": float32,
  // but the matrices of a GGUF file stay in it, mapped, and are decoded on reading. log: gets a line for
  // unused tensors; may be null. head: a classifier (...ForSequenceClassification) is opened if scores are
  // requested; if a reward is requested, also a language model, whose head is then drawn from generator()
  // (weights/initial_values.h). seed: the generator's. quantization: of the linear layers, except the head
  // and the routers.
  static std::unique_ptr<Model> open(const io::ModelSource& from, std::string_view dtype,
                                     base::LogSink* log = nullptr, at::Device device = at::kCPU,
                                     Head head = Head::language,
                                     const config::Quantization& quantization = {}, uint64_t seed = 42);
  // The same with the values of such a model, on the CPU and frozen: matrices stay in their files, mapped,
  // and are read in place, or converted to the dtype if they are of another type. Weights that are quantised
  // take their own memory, and so do wider weights of linear layers whose products are in bfloat16, which are
  // converted once. Such a model can be neither trained nor merged.
  static std::unique_ptr<Model> open_mapped(const io::ModelSource& from, std::string_view dtype,
                                            base::LogSink* log = nullptr, Head head = Head::language,
                                            const config::Quantization& quantization = {}, uint64_t seed = 42,
                                            at::ScalarType wanted = at::kFloat);
  // Reads no weights; the arguments are those of open().
  static Outline outline(const io::ModelSource& from, std::string_view dtype, Head head = Head::language);
  Model(ModelFiles files, std::shared_ptr<const WeightSource> source, at::ScalarType dtype, at::Device device,
        const config::Quantization& quantization, Held held, base::LogSink* log, uint64_t seed);
  ~Model();
  // A model of the same weights, which are in memory once: its parameters are its own, without a trainer and
  // without copies in other types, and so are its adapters, of which it has none. While both live,
  // the weights of neither may be written or replaced.
  std::unique_ptr<Model> twin() const;

  const ModelConfig& config() const { return files_.config; }
  // config.json as loaded (made from GGUF metadata)
  const base::Json& config_json() const { return files_.config_json; }
  // Made from config.json if there is no such file; empty for a reward model.
  const base::Json& generation_config_json() const { return files_.generation_config_json; }
  // Ids that end a completion: eos_token_id of generation_config.json.
  const std::vector<int32_t>& end_ids() const { return files_.end_ids; }
  // Sets these tokens in both files and end_ids() (files/special_tokens.h). Returns the changes.
  std::vector<std::string> align_special_tokens(const engine::SpecialTokens& tokens);
  // Generates torch's random numbers that follow set_seed. New values are drawn from them in TRL's order: a
  // head, then rows of embeddings, then the factors of an adapter.
  at::Generator generator() { return generator_; }
  // Gives the embedding, and a separate head, this many rows (weights/initial_values.h), drawn from
  // generator(). Call before anything holds a parameter's value.
  void resize_embeddings(int64_t rows);
  // Stores the head in float32, and with it an embedding that is tied to it; a lookup still returns rows in
  // the model's type. Call before anything holds a parameter's value.
  void widen_head();
  std::vector<Parameter*> parameters() const;  // its own, each once, in the order of the layers
  std::vector<Parameter*> all_parameters();    // its own and those of its adapters
  // A number that is larger after every change of its own weights; merging an adapter is one. Adapters have
  // theirs.
  uint64_t weights_version() const;
  // Makes a trainer train only this adapter from here on; a forward that names none uses it.
  void train_only(Adapter& adapter);
  // Until the result is destroyed, its head computes logits in float32 whatever the layers compute in, and
  // copies of the head in other types are not used. The head's values stay in their type.
  std::shared_ptr<void> compute_head_in_float32();
  bool head_in_float32() const { return float32_heads_ > 0; }
  // Until the result is destroyed, bfloat16 products with the projections of the layers, except the experts',
  // are in 8-bit integers, for which it holds two bytes for each of their elements. The weights themselves
  // stay. Throws Error(unsupported) if the machine has no such products, or a weight is held in blocks or on
  // a GPU.
  std::shared_ptr<void> multiply_in_int8();
  // Weights outside the language model, which are saved unchanged.
  struct Carried {
    std::string name;
    const io::TensorView* view;
  };
  std::vector<Carried> carried() const;
  // The tensors that files hold for it; null: they hold it as one of its name.
  const std::vector<StoredPart>* parts_of(const Parameter& parameter) const;
  // The same, with that one.
  std::vector<StoredPart> stored(const Parameter& parameter) const {
    const std::vector<StoredPart>* const parts = parts_of(parameter);
    return parts != nullptr ? *parts : std::vector<StoredPart>{{parameter.name}};
  }
  // Its slots are all modules with parameters, in the order of transformers' class.
  Adapters& adapters() { return adapters_; }
  const Adapters& adapters() const { return adapters_; }
  Parameter& head() { return *own_head(); }  // its own: lm_head, the tied embedding, or a classifier's
  // The head of a forward with this adapter (null: none). Valid until the adapter's values are set anew.
  UsedHead head_with(const Adapter* adapter) const;
  at::ScalarType dtype() const { return dtype_; }  // the weights' type
  at::Device device() const { return device_; }    // the device of the weights and the computation
  // The type to compute in when `wanted` is asked for (see ForwardOptions); the head's too, unless it
  // computes in float32.
  at::ScalarType compute(at::ScalarType wanted) const { return compute(dtype(), wanted); }
  // The options with which a head computes logits from hidden states, in the type for `wanted`.
  kernels::HeadOptions head_options(at::ScalarType wanted, const UsedHead& head = {}) const {
    kernels::HeadOptions options;
    options.compute = head_in_float32() ? at::kFloat : compute(wanted);
    options.own_rows = head.rows;
    options.narrow = head_in_float32() ? nullptr : head.narrow;
    if (config().labels > 0) return options;
    options.scale = config().logits_scale;
    options.softcap = config().logits_softcap;
    return options;
  }
  // Logits, or scores, of hidden states, without a gradient: float32 [rows, vocab].
  at::Tensor logits(const Output& output, at::ScalarType wanted) const {
    return kernels::head_logits(output.hidden, *output.head.weight, head_options(wanted, output.head));
  }
  static at::ScalarType compute(at::ScalarType weights, at::ScalarType wanted) {
    return weights == at::kBFloat16 ? at::kBFloat16 : wanted;
  }

  // Throws Error(io) if a file that holds weights was truncated: results computed with them cannot be
  // trusted. forward() and extend() check before and after; the caller of a backward checks again.
  void check_files() const {
    if (source_) source_->check();
  }

  Output forward(const ForwardInput& input, const ForwardOptions& options) const;
  // While a trainer exists: the number of layers, from the first one on, that compute without any trained
  // parameter. 0: none, or no trainer.
  int64_t frozen_layers() const { return frozen_layers(adapters_.in_use()); }
  // The output of these layers for a batch, bit by bit as in forward(): [tokens, hidden], of the type of the
  // weights. With the fused kernels and without experts, a document gets the same bits in every batch.
  at::Tensor frozen_states(const ForwardInput& input, const ForwardOptions& options) const;
  // The parameters that those layers compute with.
  std::vector<Parameter*> frozen_parameters() const;
  // The entries of transformers' hidden_states: embeddings, after each layer, the last one after the final
  // norm.
  std::vector<at::Tensor> hidden_states(const ForwardInput& input, const ForwardOptions& options) const;

  // Decoding: computes rows that continue sequences, whose keys and values are in blocks of a KvMemory. Each
  // row sees its sequence up to itself, and has the same bits whatever rows are computed with it. The result
  // has the hidden states of the rows that are wanted, in this order, without a gradient. narrow: copies to
  // compute with, and the head of the result; null: none.
  Output extend(const SequenceRows& rows, at::ScalarType compute,
                const NarrowWeights* narrow = nullptr) const;
  // Copies of the weights in this type. Throws Error(unsupported) if the model is on a GPU.
  NarrowWeights narrow_weights(NarrowType type, bool with_head) const;
  // Whether this adapter (null: none) only adds terms to projections: its rows can then be computed together
  // with those of others, and cost only their terms more.
  bool only_adds_terms(const Adapter* adapter) const;
  // Memory for the keys and values of extend() in this type; int8: see kernels::CacheShape.
  KvMemory kv_memory(at::ScalarType compute, bool int8 = false) const;

 private:
  struct Twin {};
  Model(const Model& of, Twin);
  void check(const ForwardInput& input) const;
  kernels::CacheShape cache_shape(at::ScalarType wanted, bool int8) const;
  std::vector<Slot> slots() const;
  Slot slot(Parameter* weight, Parameter* bias, adapter::ModuleKind kind, int64_t layer) const;
  void add_layer_slots(int64_t index, std::vector<Slot>& slots) const;
  void add_expert_slots(const BlockExperts& experts, int64_t index, std::vector<Slot>& slots) const;
  Parameter* own_head() const { return adapters_.untied_head() != nullptr ? adapters_.untied_head() : head_; }
  const Adapter* adapter_of(const ForwardOptions& options) const {
    return options.adapter ? *options.adapter : adapters_.in_use();
  }
  // Returns the adapter's changes to a forward; null: none.
  const Wiring* wiring_of(const Adapter* adapter) const;
  // The first layer that computes with a trained parameter, as Slot::layer counts: a graph begins there.
  int64_t first_trained_layer(const Adapter* adapter) const;
  // Whether one of these of the model's own parameters is trained.
  bool trains(size_t begin, size_t end) const;
  // Whether the graph begins within that layer, at projections that an adapter trains.
  bool begins_in_projections(const Adapter* adapter, int64_t layer) const;
  int64_t frozen_layers(const Adapter* adapter) const;
  at::Tensor below(const ForwardInput& input, const ForwardOptions& options, int64_t layers) const;
  LayerContext context(const ForwardInput& input, const ForwardOptions& options) const;
  // The rotary tables of some rows, for each kind of layer; reach: 0: their own.
  std::vector<RopeTables> rope_tables_of(const at::Tensor& position_ids, int64_t reach) const;
  std::vector<WiredRows> wirings_of(const SequenceRows& rows) const;
  std::vector<RopeTables> ropes_by_run(const SequenceRows& rows, const at::Tensor& position_ids) const;
  at::Tensor embed(const ForwardInput& input, const ForwardOptions& options,
                   const LayerContext& context) const;

  ModelFiles files_;
  at::ScalarType dtype_;
  at::Device device_;
  at::Generator generator_;
  LoadedParameters loaded_;
  std::vector<std::string> carried_;
  std::shared_ptr<const WeightSource> source_;  // the source of carried or mapped weights; else null
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  // Each layer's first index in the list of all parameters, and the end.
  std::vector<size_t> layer_parameters_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  // null: no learned positions
  Norm norm_;
  Parameter* head_ = nullptr;
  int float32_heads_ = 0;  // results of compute_head_in_float32() that exist
  Adapters adapters_;
};

}  // namespace trl::model
