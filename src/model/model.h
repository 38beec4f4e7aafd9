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
  at::Tensor states = {};  // what Model::frozen_states gives for all of it, or undefined
  // Of a part of a batch, which is computed as within the whole: the place of its first token there, on which
  // follows what is random, and the positions that the whole reaches (0: those of the input), on which some
  // rotary embeddings depend.
  int64_t first = 0, reach = 0;
};

struct ForwardOptions {
  // Of linear layers and attention; bfloat16 over float32 weights is autocast. bfloat16 weights compute in
  // bfloat16.
  at::ScalarType compute = at::kFloat;
  config::Recompute recompute = {};                 // of the decoder layers, in backward
  kernels::Noise noise = {};                        // of the embeddings
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  bool router_loss = false;                         // of a mixture of experts
  int64_t router_tokens = 0;                        // the first ones alone have that loss; 0: all
  // Training: what dropout is drawn from, of the place in the run (base::counter_seed); otherwise there is
  // none.
  std::optional<uint64_t> random = {};
  std::optional<Adapter*> adapter = {};  // null: the model alone; none: the one in use
  TileSizes tiles = {};
};

struct Output {
  at::Tensor hidden;       // [tokens, hidden], after the final norm
  at::Tensor router_loss;  // float32 scalar, where it was asked for and the family has routers
};

// What is known of a model before its weights are read.
struct Outline {
  ModelConfig config;
  at::ScalarType dtype;  // the weights will have it
};

// Keys and values of one sequence, all layers, for decoding. Made by Model::new_cache.
struct KvCache;

class Model {
 public:
  // path: a Hugging Face directory or a GGUF file. dtype: "float32", "bfloat16", or "auto": what config.json
  // or else the embedding's tensor says; float16 and block types become float32; "keep": float32, but the
  // matrices of a GGUF file stay there, mapped, and are decoded where they are read. log: gets a line for
  // tensors that are not used; may be null. head: a classifier (...ForSequenceClassification) is opened where
  // scores are asked for, and where a reward is, a language model too, whose head is drawn from generator()
  // then (score_head.h). seed: of that. quantization: of the linear layers, but of the head and the routers.
  static std::unique_ptr<Model> open(const std::string& path, std::string_view dtype,
                                     base::LogSink* log = nullptr, at::Device device = at::kCPU,
                                     Head head = Head::language,
                                     const config::Quantization& quantization = {}, uint64_t seed = 42);
  // The same with the numbers of such a model, on the CPU and frozen: matrices stay in their files, mapped,
  // and are read where they lie, or converted to the dtype where they are of another type. Weights that
  // are quantised take memory of their own, and so do wider weights of linear layers whose products are in
  // bfloat16, which are converted once. Such a model is neither trained nor merged.
  static std::unique_ptr<Model> open_mapped(const std::string& path, std::string_view dtype,
                                            base::LogSink* log = nullptr, Head head = Head::language,
                                            const config::Quantization& quantization = {}, uint64_t seed = 42,
                                            at::ScalarType wanted = at::kFloat);
  static Outline outline(const std::string& path, std::string_view dtype,
                         Head head = Head::language);  // as in open()
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const base::Json& config_json() const = 0;  // config.json as loaded (made from GGUF metadata)
  // Made from config.json where there is none; empty: of a reward model.
  virtual const base::Json& generation_config_json() const = 0;
  // That end a completion: eos_token_id of generation_config.json.
  virtual const std::vector<int32_t>& end_ids() const = 0;
  // From here on both files, and end_ids(), name these tokens (special_tokens.h). Returns what changed.
  virtual std::vector<std::string> align_special_tokens(const engine::SpecialTokens& tokens) = 0;
  // Gives torch's random numbers as they go on after set_seed. New values are drawn from them in TRL's order:
  // a head, then rows of embeddings, then the factors of an adapter.
  virtual at::Generator generator() = 0;
  // Gives the embedding, and a head of its own, this many rows (embedding_rows.h), drawn from generator().
  // Before anything holds a parameter's value.
  virtual void resize_embeddings(int64_t rows) = 0;
  virtual std::vector<Parameter*> parameters() = 0;  // its own, each once, in the order of the layers
  std::vector<Parameter*> all_parameters();          // and those of its adapters
  // From here on a trainer trains this adapter alone, and a forward takes it that names none.
  void train_only(Adapter& adapter);
  // Until the result goes, bfloat16 products with the projections of the layers, experts' apart, are in 8-bit
  // integers, for which it holds two bytes for each of their elements. The weights themselves stay. Throws
  // Error(unsupported) where the machine has no such products, or a weight is held in blocks or on a GPU.
  virtual std::shared_ptr<void> multiply_in_int8() = 0;
  // Weights beside the language model, which are saved as they came.
  struct Carried {
    std::string name;
    const io::TensorView* view;
  };
  virtual std::vector<Carried> carried() const = 0;
  // What files hold of it.
  virtual std::vector<StoredPart> stored(const Parameter& parameter) const = 0;
  // Its slots are all modules with parameters, in the order of transformers' class.
  virtual Adapters& adapters() = 0;
  virtual Parameter& head() = 0;  // lm_head, the tied embedding, or a classifier's
  // The rows in it of the adapter that was last entered. For as long as the model is there.
  virtual const kernels::OwnRows& head_rows() const = 0;
  virtual at::ScalarType dtype() const = 0;  // of the weights
  virtual at::Device device() const = 0;     // of the weights, and of what is computed
  // The type to compute in when `wanted` is asked for (see ForwardOptions); the head's too.
  at::ScalarType compute(at::ScalarType wanted) const { return compute(dtype(), wanted); }
  // How the head makes logits of hidden states, computed in what `wanted` comes to.
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

  // Throws Error(io) where weights lie in a file that was cut since: what was computed with them cannot be
  // trusted. forward() and extend() ask by themselves before and after; who runs a backward asks again.
  virtual void check_files() const = 0;

  virtual Output forward(const ForwardInput& input, const ForwardOptions& options) = 0;
  // While a trainer lives: how many layers, from the first one on, compute without anything that is trained.
  // 0: none, or no trainer.
  virtual int64_t frozen_layers() const = 0;
  // What these layers make of a batch, bit by bit as in forward(): [tokens, hidden], of the type of the
  // weights. By the fused kernels and without experts, a document gets the same bits in every batch.
  virtual at::Tensor frozen_states(const ForwardInput& input, const ForwardOptions& options) = 0;
  virtual std::vector<Parameter*> frozen_parameters() = 0;  // that those layers compute with
  // The entries of transformers' hidden_states: embeddings, after each layer, the last one after the final
  // norm.
  virtual std::vector<at::Tensor> hidden_states(const ForwardInput& input, const ForwardOptions& options) = 0;

  // Decoding: appends ids (a whole prompt, or one token) to the cache, returns the hidden state [1, hidden]
  // of the last. capacity: positions to make room for at first; the cache grows beyond.
  virtual std::shared_ptr<KvCache> new_cache(int64_t capacity) = 0;
  virtual at::Tensor extend(KvCache& cache, const std::vector<int32_t>& ids, at::ScalarType compute) = 0;
};

}  // namespace trl::model
