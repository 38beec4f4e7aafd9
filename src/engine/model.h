// A model: its files, its tensors, its adapters, and what it computes outside a run.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "config/model_options.h"
#include "engine/generator.h"
#include "engine/host.h"
#include "engine/sampling.h"
#include "io/model_source.h"
#include "io/safetensors.h"

namespace trl::engine {

// A tokenizer as encoded metadata of a GGUF file.
struct GgufVocabulary {
  uint64_t pairs = 0;
  std::string_view bytes;
  int32_t eos = -1;  // the EOS token that its metadata name
};

struct ModelSpec {
  io::ModelSource source;
  std::string_view dtype;      // auto, float32, bfloat16
  bool use_cpu = false;        // even if there is a GPU
  int64_t embedding_rows = 0;  // rows that the embedding gets; 0: as many as the files have
  uint64_t seed = 42;          // initialises new rows, and a new head
  config::Quantization quantization = {};
  bool reward = false;        // the head gives a sequence one score instead of giving tokens logits
  bool head_follows = false;  // an adapter brings the head that the files lack
  // Weights stay in their files as far as possible: nothing is trained, merged or saved.
  bool mapped = false;
  bool bf16 = false;       // mapped: products with float32 weights are computed in bfloat16
  bool wide_head = false;  // the head's values are in float32, whatever the others are in
  bool plain = false;      // computes with libtorch's own operators (fused_kernels: off)
};

struct ConvertSpec {
  ModelSpec model;  // opened only to merge an adapter into it; dtype auto: the type that loses nothing
  std::string_view adapter;   // an adapter's directory; empty: no adapter
  bool merged = false;        // the adapter goes into the model's weights; otherwise the adapter is converted
  std::string_view target;    // a GGUF file if it ends in .gguf, else a directory
  std::string_view type;      // auto, f32, f16, bf16, q8_0, q4_0
  GgufVocabulary vocabulary;  // the tokenizer's, for a GGUF file of a model
  // for a directory: the tokenizer's files, and an adapter's files except its weights
  std::span<const NamedBytes> files;
};

// Texts that a reward model scores.
struct ScoreSpec {
  std::span<const std::span<const int32_t>> texts;
  bool bf16 = false;    // products in bfloat16 over float32 weights, as in training
  int64_t batch = 8;    // texts at a time
  bool at_end = false;  // the last token has the score, even if it is the one that pads
};

// The parts that a save writes. model: with use_peft this is the adapter. merged: all weights, with the
// adapter in them.
enum class SaveKind : int32_t { model, checkpoint, adapter, merged };

// A tensor of a model or of its adapters.
struct TensorInfo {
  std::string_view name;
  std::span<const int64_t> shape;
  std::string_view dtype;   // "float32"
  std::string_view stored;  // "nf4" for blocks, else as dtype
  bool trained = false;
  bool gradient = false;  // it has one now
};

class TensorList {
 public:
  virtual void add(const TensorInfo& tensor) = 0;

 protected:
  ~TensorList() = default;
};

// copy: of the numbers; view: their own memory; gradient: a copy of it.
enum class TensorRead : int32_t { copy, view, gradient };

// Numbers in memory that owner frees, on any thread; contiguous.
struct HeldTensor {
  io::ElementType type = io::ElementType::f32;
  std::vector<int64_t> shape = {};
  void* data = nullptr;
  int32_t gpu = -1;  // -1: on the host
  std::shared_ptr<void> owner = nullptr;
};

// Numbers in memory of the host. strides: in elements, as many as shape has.
struct GivenTensor {
  io::ElementType type = io::ElementType::f32;
  std::span<const int64_t> shape, strides;
  const void* data = nullptr;  // of the first element
};

class Model {
 public:
  virtual void release() noexcept = 0;
  virtual std::string_view config_json() noexcept = 0;      // valid while the model lives
  virtual std::span<const int32_t> end_ids() noexcept = 0;  // eos_token_id; valid while the model lives
  virtual int64_t parameter_count() noexcept = 0;
  // The largest number of tokens in a sequence; 0: unlimited.
  virtual int64_t learned_positions() noexcept = 0;
  // The most tokens in a sequence that the model is made for, learned or not.
  virtual int64_t positions() noexcept = 0;
  // Writes the weights, config.json, generation_config.json and `files`, or the adapter in use and `files`,
  // to a temporary place and moves them into `directory`.
  virtual int32_t save(std::string_view directory, SaveKind kind, std::span<const NamedBytes> files,
                       ErrorSink& error) noexcept = 0;
  // Adds a saved adapter under its own name; it is not used before use_adapter().
  virtual int32_t add_adapter(std::string_view name, std::string_view directory,
                              ErrorSink& error) noexcept = 0;
  virtual int32_t remove_adapter(std::string_view name, ErrorSink& error) noexcept = 0;
  virtual int32_t use_adapter(std::string_view name, ErrorSink& error) noexcept = 0;    // empty: no adapter
  virtual int32_t merge_adapter(std::string_view name, ErrorSink& error) noexcept = 0;  // empty: no adapter
  // Refuses what a generator of the model as it is now would refuse.
  virtual int32_t check_sampling(const Sampling& sampling, ErrorSink& error) noexcept = 0;
  virtual int32_t create_generator(const GeneratorSpec& spec, Generator** out, ErrorSink& error) noexcept = 0;
  // Scores texts; `scores` gets one number for each of them.
  virtual int32_t score(const ScoreSpec& spec, float* scores, ErrorSink& error) noexcept = 0;
  // Its tensors under the names of a saved directory, and those of its adapters under PEFT's in a model.
  virtual int32_t list_tensors(TensorList& list, ErrorSink& error) noexcept = 0;
  virtual int32_t read_tensor(std::string_view name, TensorRead what, HeldTensor* out,
                              ErrorSink& error) noexcept = 0;
  // Converts the values; all that is made of a weight follows.
  virtual int32_t write_tensor(std::string_view name, const GivenTensor& values,
                               ErrorSink& error) noexcept = 0;

 protected:
  ~Model() = default;
};

}  // namespace trl::engine
