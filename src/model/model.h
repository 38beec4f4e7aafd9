// A causal language model made of decoder layers. forward() returns hidden states, never logits.
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
#include "config/quantization.h"
#include "config/recompute.h"
#include "engine/engine.h"
#include "io/safetensors.h"
#include "kernels/head/head.h"
#include "kernels/kernels.h"
#include "model/adapters.h"
#include "model/model_config.h"
#include "model/stored_part.h"
#include "model/tile_sizes.h"
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
  std::optional<Adapter*> adapter = {};  // null: the model without adapters; empty: the one in use
  TileSizes tiles = {};
};

struct Output {
  at::Tensor hidden;       // [tokens, hidden], after the final norm
  at::Tensor router_loss;  // float32 scalar, if requested and the family has routers
};

// The facts that are known about a model before its weights are read.
struct Outline {
  ModelConfig config;
  at::ScalarType dtype;  // the type that the weights will have
};

// Keys and values of one sequence, all layers, for decoding. Made by Model::new_cache.
struct KvCache;

class Model {
 public:
  // path: a Hugging Face directory or a GGUF file. dtype: "float32", "bfloat16", or "auto": the type in
  // config.json or else of the embedding's tensor; float16 and block types become float32; "keep": float32,
  // but the matrices of a GGUF file stay in it, mapped, and are decoded on reading. log: gets a line for
  // unused tensors; may be null. head: a classifier (...ForSequenceClassification) is opened if scores are
  // requested; if a reward is requested, also a language model, whose head is then drawn from generator()
  // (score_head.h). seed: the generator's. quantization: of the linear layers, except the head and the
  // routers.
  static std::unique_ptr<Model> open(const std::string& path, std::string_view dtype,
                                     base::LogSink* log = nullptr, at::Device device = at::kCPU,
                                     Head head = Head::language,
                                     const config::Quantization& quantization = {}, uint64_t seed = 42);
  // The same with the values of such a model, on the CPU and frozen: matrices stay in their files, mapped,
  // and are read in place, or converted to the dtype if they are of another type. Weights that are quantised
  // take their own memory, and so do wider weights of linear layers whose products are in bfloat16, which are
  // converted once. Such a model can be neither trained nor merged.
  static std::unique_ptr<Model> open_mapped(const std::string& path, std::string_view dtype,
                                            base::LogSink* log = nullptr, Head head = Head::language,
                                            const config::Quantization& quantization = {}, uint64_t seed = 42,
                                            at::ScalarType wanted = at::kFloat);
  // Reads no weights; the arguments are those of open().
  static Outline outline(const std::string& path, std::string_view dtype, Head head = Head::language);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const base::Json& config_json() const = 0;  // config.json as loaded (made from GGUF metadata)
  // Made from config.json if there is no such file; empty for a reward model.
  virtual const base::Json& generation_config_json() const = 0;
  // Ids that end a completion: eos_token_id of generation_config.json.
  virtual const std::vector<int32_t>& end_ids() const = 0;
  // Sets these tokens in both files and end_ids() (special_tokens.h). Returns the changes.
  virtual std::vector<std::string> align_special_tokens(const engine::SpecialTokens& tokens) = 0;
  // Generates torch's random numbers that follow set_seed. New values are drawn from them in TRL's order: a
  // head, then rows of embeddings, then the factors of an adapter.
  virtual at::Generator generator() = 0;
  // Gives the embedding, and a separate head, this many rows (embedding_rows.h), drawn from generator(). Call
  // before anything holds a parameter's value.
  virtual void resize_embeddings(int64_t rows) = 0;
  virtual std::vector<Parameter*> parameters() = 0;  // its own, each once, in the order of the layers
  std::vector<Parameter*> all_parameters();          // its own and those of its adapters
  // Makes a trainer train only this adapter from here on; a forward that names none uses it.
  void train_only(Adapter& adapter);
  // Until the result is destroyed, bfloat16 products with the projections of the layers, except the experts',
  // are in 8-bit integers, for which it holds two bytes for each of their elements. The weights themselves
  // stay. Throws Error(unsupported) if the machine has no such products, or a weight is held in blocks or on
  // a GPU.
  virtual std::shared_ptr<void> multiply_in_int8() = 0;
  // Weights outside the language model, which are saved unchanged.
  struct Carried {
    std::string name;
    const io::TensorView* view;
  };
  virtual std::vector<Carried> carried() const = 0;
  // The tensors that files hold for it.
  virtual std::vector<StoredPart> stored(const Parameter& parameter) const = 0;
  // Its slots are all modules with parameters, in the order of transformers' class.
  virtual Adapters& adapters() = 0;
  virtual Parameter& head() = 0;  // lm_head, the tied embedding, or a classifier's
  // The rows of the last entered adapter in the head. Valid as long as the model.
  virtual const kernels::OwnRows& head_rows() const = 0;
  virtual at::ScalarType dtype() const = 0;  // the weights' type
  virtual at::Device device() const = 0;     // the device of the weights and the computation
  // The type to compute in when `wanted` is asked for (see ForwardOptions); the head's too.
  at::ScalarType compute(at::ScalarType wanted) const { return compute(dtype(), wanted); }
  // The options with which the head computes logits from hidden states, in the type for `wanted`.
  kernels::HeadOptions head_options(at::ScalarType wanted) const {
    kernels::HeadOptions options;
    options.compute = compute(wanted);
    options.own_rows = &head_rows();
    if (config().labels > 0) return options;
    options.scale = config().logits_scale;
    options.softcap = config().logits_softcap;
    return options;
  }
  static at::ScalarType compute(at::ScalarType weights, at::ScalarType wanted) {
    return weights == at::kBFloat16 ? at::kBFloat16 : wanted;
  }

  // Throws Error(io) if a file that holds weights was truncated: results computed with them cannot be
  // trusted. forward() and extend() check before and after; the caller of a backward checks again.
  virtual void check_files() const = 0;

  virtual Output forward(const ForwardInput& input, const ForwardOptions& options) = 0;
  // While a trainer exists: the number of layers, from the first one on, that compute without any trained
  // parameter. 0: none, or no trainer.
  virtual int64_t frozen_layers() const = 0;
  // The output of these layers for a batch, bit by bit as in forward(): [tokens, hidden], of the type of the
  // weights. With the fused kernels and without experts, a document gets the same bits in every batch.
  virtual at::Tensor frozen_states(const ForwardInput& input, const ForwardOptions& options) = 0;
  // The parameters that those layers compute with.
  virtual std::vector<Parameter*> frozen_parameters() = 0;
  // The entries of transformers' hidden_states: embeddings, after each layer, the last one after the final
  // norm.
  virtual std::vector<at::Tensor> hidden_states(const ForwardInput& input, const ForwardOptions& options) = 0;

  // Decoding: appends ids (a whole prompt, or one token) to the cache, returns the hidden state [1, hidden]
  // of the last. capacity: positions to make room for initially; the cache grows as needed.
  virtual std::shared_ptr<KvCache> new_cache(int64_t capacity) = 0;
  virtual at::Tensor extend(KvCache& cache, const std::vector<int32_t>& ids, at::ScalarType compute) = 0;
};

}  // namespace trl::model
