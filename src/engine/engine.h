// The interface between libtrl.so and libtrl_engine.so: abstract classes, plain (pointer, count) structs, and
// the options of a run, which both read with the same code, since they are built together. Every call is
// noexcept and answers with a trl::Status as int32_t; a negative one comes with a message through ErrorSink.
// Each side destroys its own objects (release()). Views are valid during the call unless said otherwise.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/host_files.h"
#include "base/interrupt.h"
#include "base/memory/memory.h"
#include "config/model_options.h"
#include "config/training_arguments.h"
#include "data/batch/batch.h"
#include "io/model_source.h"
#include "io/safetensors.h"
#include "text/constraint/constraint.h"

namespace trl::config {
struct RunOptions;
}
namespace trl::telemetry {
struct RunPlan;
}

namespace trl::engine {

inline constexpr uint32_t kInterfaceVersion = 28;  // both libraries must agree; they are built together

class ErrorSink {
 public:
  virtual void set(const Error& error) noexcept = 0;

 protected:
  ~ErrorSink() = default;
};

// Process-wide services that libtrl.so owns and lends to the engine. Outlives every engine object. any
// thread.
class Host {
 public:
  virtual void log(int32_t level, std::string_view component,
                   std::string_view text) noexcept = 0;               // base::LogLevel
  virtual bool try_charge(int32_t kind, int64_t bytes) noexcept = 0;  // base::MemoryKind
  virtual void release(int32_t kind, int64_t bytes) noexcept = 0;
  virtual int64_t memory_limit() noexcept = 0;
  virtual int64_t memory_now() noexcept = 0;
  virtual int64_t memory_peak(int32_t kind) noexcept = 0;  // the highest so far in a run with a budget
  // Call after try_charge() failed on this thread. Negative: a limit narrower than memory_limit() was
  // exceeded (reason in `why`); ok: memory_limit() itself was.
  virtual int32_t why_refused(int32_t /*kind*/, int64_t /*bytes*/, ErrorSink& /*why*/) noexcept { return 0; }
  // The interrupt of the call that this thread is in, which the engine polls during the call; null: it has
  // none.
  virtual base::Interrupt* interrupt() noexcept { return nullptr; }
  virtual base::HostFiles* files() noexcept { return nullptr; }  // null: nothing is mounted

 protected:
  ~Host() = default;
};

struct NamedBytes {
  std::string_view name;
  std::string_view bytes;
};

struct Metric {
  std::string_view name;
  double value;
};

// Micro-batches in TRL's order, implemented by libtrl.so. exclusive.
class BatchSource {
 public:
  virtual int64_t batches_per_epoch() noexcept = 0;  // -1: not known (streaming)
  virtual int64_t rows() noexcept = 0;               // -1: not known
  // A fingerprint of the rows as trained on, in their order: a resume notices other rows. 0: not known.
  virtual uint64_t fingerprint() noexcept { return 0; }
  // Makes epoch `epoch` current and skips its first `skip` batches. evaluations_before: the number of
  // evaluation passes before the beginning of each epoch up to this one: Trainer's group_by_length draws from
  // torch's generator, and so does every such pass.
  virtual int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                              ErrorSink& error) noexcept = 0;
  // Starts a pass instead of an epoch: each row once, in file order, `batch_size` rows per batch; the last
  // batch may be short. A run starts its epoch anew afterwards.
  virtual int32_t start_pass(int64_t batch_size, ErrorSink& error) noexcept = 0;
  // ok: **batch is valid until the next call; end: the epoch, or the pass, is over.
  virtual int32_t next(const data::Batch** batch, ErrorSink& error) noexcept = 0;
  // The state that a checkpoint keeps of a source whose next batches do not follow from the epoch and its
  // batches so far, such as a buffer of completions; valid until the next call. Empty: it has none.
  virtual int32_t state(std::string_view* /*bytes*/, ErrorSink& /*error*/) noexcept { return 0; }
  // Takes an earlier state(), directly after a start_epoch() with the position at which it was asked.
  virtual int32_t load_state(std::string_view /*bytes*/, ErrorSink& error) noexcept {
    try {
      error.set({Status::invalid_argument,
                 "these rows have no state, and the checkpoint has one: it is of other rows"});
    } catch (const std::bad_alloc&) {
      return static_cast<int32_t>(Status::out_of_memory);
    }
    return static_cast<int32_t>(Status::invalid_argument);
  }

 protected:
  ~BatchSource() = default;
};

enum class EventKind : int32_t { train_begin, step, log, evaluate, save, epoch, train_end };

struct Event {
  EventKind kind;
  int64_t step;  // global_step
  int64_t max_steps;
  double epoch;
  std::span<const Metric> metrics;
  std::string_view path = {};  // save: the directory that was written
};

inline constexpr int32_t kEventStop = 1;
inline constexpr int32_t kEventSave = 2;
inline constexpr int32_t kEventEvaluate = 4;

class EventSink {
 public:
  virtual int32_t on_event(const Event& event) noexcept = 0;  // 0 or kEvent* bits; on the stepping thread

 protected:
  ~EventSink() = default;
};

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

// Generation takes and returns token ids.
inline constexpr std::string_view kNoAdapter = "none";

// The order in which tokens are removed from a distribution: transformers' (top_k, top_p, min_p, typical_p,
// epsilon_cutoff, eta_cutoff), or vLLM's, with min_p before top_k.
enum class SamplingOrder : int32_t { transformers, vllm };

// The rule that keeps the text of a completion to a form; made by libtrl.so.
using Constraint = text::Constraint;
using AllowedIds = text::AllowedIds;

// Prompt lookup: ids are proposed because they followed the same ids before, in the text or in other
// completions of its prompt, and computed together. Tokens and their draws are the same as without.
struct Speculation {
  int64_t tokens = 0;                       // at most proposed at once, up to kMostTokens; 0: off
  int64_t most_ngram = 5, least_ngram = 5;  // ids that must be the same: as many as possible of this range
  bool always = false;                      // computes all that are proposed, even where that is slower
  static constexpr int64_t kMostTokens = 32, kMostNgram = 64;
};

// The options of one request, by the names of transformers and vLLM. Everything up to the temperature changes
// logits of greedy choices, too.
struct Sampling {
  int64_t max_new_tokens = 20;
  int64_t min_new_tokens = 0;  // no stop id before
  // Removes tokens before anything else does: those after which the text can no longer become a match, and
  // ids that end it, unless it is one. null: none. Each continuation of a sequence begins anew.
  std::shared_ptr<Constraint> constraint = nullptr;
  std::vector<int32_t> allowed_ids;      // empty: all
  std::vector<int32_t> suppress_tokens;  // never chosen
  // Ids, or sequences of ids whose last one is not chosen after the others.
  std::vector<std::vector<int32_t>> bad_words_ids;
  std::vector<std::pair<int32_t, float>> logit_bias;       // added to the logits of these ids
  double repetition_penalty = 1.0;                         // for ids of the prompt and the completion
  int64_t no_repeat_ngram_size = 0;                        // no n-gram twice; 0: off
  double frequency_penalty = 0.0, presence_penalty = 0.0;  // for ids of the completion: by count, and once
  double temperature = 0.0;                                // 0: greedy
  double top_p = 1.0;
  int64_t top_k = 0;  // 0: off
  double min_p = 0.0;
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0, eta_cutoff = 0.0;  // 0: off
  SamplingOrder order = SamplingOrder::transformers;
  uint64_t seed = 42;
  // Ids that end a text: stop_token_ids and eos_token_id, which must be in the vocabulary, and those of the
  // model and the tokenizer, which need not be.
  std::vector<int32_t> stop_ids, eos_ids, own_end_ids;
  std::string adapter;             // empty: the adapter in use; kNoAdapter: the model without adapters
  bool log_probabilities = false;  // costs exponentials of the whole vocabulary for each token
  int64_t best = 0;                // the number of most likely tokens that have log-probabilities too
  // The number of most likely tokens to report at each position of the prompt, with the prompt's own token,
  // by the model's own distribution at prompt_temperature (GenerationSink::on_prompt); -1: no
  // log-probabilities.
  int64_t prompt_best = -1;
  double prompt_temperature = 1.0;
  Speculation speculation;
};

struct GenerationRequest {
  std::span<const int32_t> ids;  // of the prompt
  const Sampling* sampling = nullptr;
  int64_t count = 1;  // completions, each a sequence
  // The number of the first completion's draws: token t of completion c is drawn with (seed, stream + c, t).
  uint64_t stream = 0;
  bool keeps = false;  // its sequences keep their keys when they end, so that extend() can continue them
};

struct Ranked {
  int32_t id;
  float log_probability;
  bool operator==(const Ranked&) const = default;
};

struct Token {
  int32_t id = 0;
  bool last = false;  // the sequence ends with it
  // The log-probability in the distribution that it was chosen from. This and the next two are 0 unless
  // Sampling asks for them.
  float log_probability = 0;
  // The same of the whole distribution at the temperature (greedy: 1), before penalties and removals: the one
  // that training compares with.
  float whole_log_probability = 0;
  float entropy = 0;  // of that distribution, in nats
  // The most likely tokens of both distributions, best first; of equal ones the lower id. `best` has fewer if
  // fewer could be chosen.
  std::vector<Ranked> best = {}, whole_best = {};
};

// An id that a prompt has, as the next token after those before it.
struct PromptToken {
  int64_t position;  // in the prompt; 1 is the first that has others before it
  int32_t id;
  float log_probability = 0;      // NaN: the model's output is not a number
  int64_t rank = 0;               // 1: the most likely; not among `best`: how many are at least as likely
  std::vector<Ranked> best = {};  // the most likely ids, best first; of equal ones the lower id
  bool operator==(const PromptToken&) const = default;
};

// none: it goes on. refused: the sink ended it. failed: its logits are not numbers, it needs more blocks than
// there are, or there is no memory for its token.
enum class Finish : int32_t { none, stop_id, length, refused, failed };

class GenerationSink {
 public:
  // false: the sequence ends. Called on the generating thread, in order of the sequence's tokens.
  virtual bool on_token(int64_t sequence, const Token& token) noexcept = 0;
  // error: for Finish::failed; else empty.
  virtual void on_end(int64_t sequence, Finish how, std::string_view error) noexcept = 0;
  // The next two are called once for all sequences of a request, with the number of one of them. The first
  // rows are computed, after so many ids whose keys were known:
  virtual void on_begin(int64_t, int64_t /*known*/) noexcept {}
  // In order of the positions, before the first token.
  virtual void on_prompt(int64_t, const PromptToken&) noexcept {}

 protected:
  ~GenerationSink() = default;
};

struct GeneratorSpec {
  bool bf16 = false;              // computes in bfloat16 over float32 weights, as training under bf16 does
  bool plain = false;             // as in ModelSpec
  bool within_positions = false;  // refuses a prompt with more tokens than Model::positions()
  bool int8_cache = false;        // keeps keys and values as integers
  // Computes with copies of the weights in this type: bfloat16, int8 or int4; empty: with the weights.
  std::string weights = {};
  bool copies_head = true;
  bool sleeps = false;  // in training: the copies go back after each generation
  // Bytes of keys and values for all generators of the model that compute alike: the most that one of them
  // asks for. A block must fit.
  int64_t cache_bytes = int64_t{512} << 20;
  int64_t step_tokens = 512;  // at most in a step
  int64_t step_sequences = 256;
  bool prefix_cache = true;  // prompts that begin alike share blocks
};

struct GenerationUse {
  int64_t block_bytes = 0, block_tokens = 0;
  int64_t blocks = 0, blocks_limit = 0;  // of all generators that share them
  int64_t blocks_kept = 0;               // others, whose contents prompts may begin with
  int64_t bytes = 0;                     // allocated
  int64_t waiting = 0, running = 0;      // sequences of this generator
  int64_t proposed = 0, accepted = 0;    // ids that prompt lookup had computed, and that were right
  int64_t preempted = 0;                 // times that one of them gave its blocks back, for lack of blocks
};

// Completes many requests at once, on the model's weights as they are at each step. exclusive, with the model
// and all its generators.
class Generator {
 public:
  virtual void release() noexcept = 0;
  // *first: the number of the first of request.count sequences; the others follow.
  virtual int32_t add(const GenerationRequest& request, int64_t* first, ErrorSink& error) noexcept = 0;
  // ok: a step was computed; end: there was nothing to do. After an error all sequences are as before.
  virtual int32_t step(GenerationSink& sink, ErrorSink& error) noexcept = 0;
  // Goes on with a sequence that ended and was kept, after more tokens.
  virtual int32_t extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens,
                         ErrorSink& error) noexcept = 0;
  virtual void end(int64_t sequence) noexcept = 0;  // any; without a call of the sink; unknown: does nothing
  virtual bool idle() noexcept = 0;                 // a step would have nothing to do
  // Gives the memory of keys and values back to the system. Sequences are computed again when they go on.
  virtual int32_t release_memory(ErrorSink& error) noexcept = 0;
  virtual GenerationUse use() noexcept = 0;

 protected:
  ~Generator() = default;
};

// The prompts of a generation, one for each of its completions.
struct PromptRows {
  std::vector<int64_t> row_ids;  // in the source
  std::vector<std::vector<int32_t>> ids;
  bool for_teacher = false;  // the teacher completes them, if the engine does
  int64_t items = 0;         // tokens that a loss is divided by; 0: those that count in it
};

struct Completion {
  std::vector<int32_t> ids;
  // By token, in the whole distribution at the temperature (Token::whole_log_probability). NaN: not known;
  // empty: none is.
  std::vector<float> log_probabilities = {};
  std::vector<float> entropies = {};  // likewise (Token::entropy)
  // By token: 0 for one that the model did not write, such as a tool's answer. Empty: it wrote all.
  std::vector<uint8_t> written = {};
  bool stopped = false;  // RolloutSource::stops() ended it
  bool counts(size_t token) const { return written.empty() || written[token] != 0; }
};

// Tokens that follow a completion whose turn has ended, and that the model did not write, such as a tool's
// answer. It then writes at most max_new_tokens more; 0: the completion ends with them.
struct Continuation {
  size_t row;
  std::vector<int32_t> ids;
  int64_t max_new_tokens;
};

// Rewards of the completions of a generation, by functions with names.
struct Rewards {
  std::vector<std::string> names;
  std::vector<double> weights;                          // by function
  std::vector<double> values;                           // [completions, functions]; NaN: none
  std::vector<std::pair<std::string, double>> metrics;  // that the functions reported
};

// The completions of a run from a generation that it has yet to make to its end.
struct RolloutNeeds {
  int64_t generations = 0;  // of training
  int64_t evaluations = 0;  // passes over evaluation rows
  int64_t samples = 0;      // first generations of such a pass alone
};

// The rest of a run, implemented by the engine.
class RunAhead {
 public:
  virtual int64_t step() const noexcept = 0;  // updates done
  virtual int64_t max_steps() const noexcept = 0;
  // Returns what the run needs if it ends after so many updates.
  virtual RolloutNeeds needs(int64_t max_steps) const noexcept = 0;

 protected:
  ~RunAhead() = default;
};

// Prompts in TRL's order, and all that a host adds to the completions of them, implemented by libtrl.so. A
// generation goes through next(), complete(), finished(), reward() and scored(). exclusive.
class RolloutSource {
 public:
  virtual int64_t prompts() noexcept = 0;                // of an epoch
  virtual int64_t generations_per_epoch() noexcept = 0;  // whole ones
  virtual uint64_t fingerprint() noexcept = 0;           // as BatchSource's
  // Makes epoch `epoch` current; the next generation is its `generation`-th, from 0. An evaluation is epoch
  // 0.
  virtual int32_t start_epoch(int64_t epoch, int64_t generation, ErrorSink& error) noexcept = 0;
  // Refuses a run that needs completions which cannot come. Asked once, before the next generation.
  virtual int32_t check_run(const RunAhead& run, ErrorSink& error) noexcept = 0;
  // ok: **prompts is valid until the next call; end: the epoch is over. step: updates done before.
  virtual int32_t next(int64_t step, const PromptRows** prompts, ErrorSink& error) noexcept = 0;
  // Gives the completions of these prompts, row i drawn with stream first_stream + i; end: the engine writes
  // them. With null, a writer elsewhere (a server) gets the weights of now, and the answer is ok.
  virtual int32_t complete(uint64_t first_stream, std::vector<Completion>* completions,
                           ErrorSink& error) noexcept = 0;
  // Hears of the tokens of a row that the engine writes. true: the completion ends with this one.
  virtual bool stops(size_t row, int32_t id) noexcept = 0;
  // These rows of the generation have their completions, which are not changed before reward(): whoever
  // rewards them may begin. Called for groups of rows while the engine writes others, and for all.
  virtual int32_t finished(std::span<const Completion> completions, std::span<const size_t> rows,
                           ErrorSink& error) noexcept = 0;
  // Takes completions that the engine has written so far, and gives those that go on. It is asked again when
  // their turns have ended, until there are none. Only if RolloutSpec::continues.
  virtual int32_t go_on(std::span<const Completion> completions, std::vector<Continuation>* more,
                        ErrorSink& error) noexcept = 0;
  // Whether rewards are still to come from elsewhere: reward() will wait, and the engine may work meanwhile.
  virtual bool rewards_are_late() noexcept = 0;
  // completions: of all rows of the generation, or of those that redraw() gave other prompts.
  virtual int32_t reward(std::span<const Completion> completions, Rewards* rewards,
                         ErrorSink& error) noexcept = 0;
  // Gives rows, which are whole groups, other prompts; **prompts has all rows of the generation.
  virtual int32_t redraw(std::span<const size_t> rows, const PromptRows** prompts,
                         ErrorSink& error) noexcept = 0;
  // Hears of the advantages of these completions, for records; empty: the method has none.
  virtual int32_t scored(std::span<const Completion> completions, const Rewards& rewards,
                         std::span<const float> advantages, ErrorSink& error) noexcept = 0;
  // As BatchSource's, asked between two generations.
  virtual int32_t state(std::string_view* bytes, ErrorSink& error) noexcept = 0;
  virtual int32_t load_state(std::string_view bytes, ErrorSink& error) noexcept = 0;

 protected:
  ~RolloutSource() = default;
};

// How a run writes completions and learns from them.
struct RolloutSpec {
  RolloutSource* train = nullptr;  // outlives the trainer
  RolloutSource* eval = nullptr;   // or null; outlives the trainer
  GeneratorSpec generator = {};
  Sampling sampling = {}, eval_sampling = {};
  std::vector<int32_t> end_ids = {};  // a completion that ends with none of them was cut
  bool continues = false;             // completions may have several turns (RolloutSource::go_on)
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

// The predicted peak of a run's memory, in bytes. peak 0: it is not known.
struct Prediction {
  int64_t peak = 0;     // resident, of the whole process
  int64_t process = 0;  // the part of it that the memory counter does not see
  // The peak of each kind; these peaks are not simultaneous.
  std::array<int64_t, base::kMemoryKinds> kinds = {};
};

struct AttentionSpec {
  const config::RunOptions* options = nullptr;  // attn_implementation names a plug-in
  io::ModelSource model;
};

// The plug-in attention of a run. Opening one checks it, and reads neither rows nor weights.
class Attention {
 public:
  virtual void release() noexcept = 0;

 protected:
  ~Attention() = default;
};

// The tokenizer's EOS and the tokens that end a completion. aligned: it is added to them if it is missing.
// added (eos_token is set): it is added, and becomes the EOS of config.json. replaced (chat_template_path
// names a model): it becomes the only one.
enum class EndToken : int32_t { aligned, added, replaced };

// The special tokens of the tokenizer that a run trains with and saves; -1: it has no such token.
struct SpecialTokens {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t pad = -1;
  EndToken end = EndToken::aligned;
};

struct TrainerSpec {
  const config::RunOptions* options = nullptr;
  Model* model = nullptr;                 // must outlive the trainer; its weights are trained in place
  Attention* attention = nullptr;         // or null: the built-in one; may be released before the trainer
  BatchSource* train = nullptr;           // or null, with rollouts; outlives the trainer
  BatchSource* eval = nullptr;            // or null; outlives the trainer
  const RolloutSpec* rollouts = nullptr;  // methods that learn from completions
  EventSink* events = nullptr;            // or null
  std::span<const NamedBytes> files;      // go into every saved directory (tokenizer, chat template); copied
  GgufVocabulary vocabulary;              // for save_format gguf; copied
  SpecialTokens tokens;                   // go into config.json and generation_config.json
  std::span<const int32_t> new_tokens;    // from another model's tokenizer: an adapter trains them too
  config::Levers levers = {};
  const Prediction* prediction = nullptr;  // outlives the trainer, and may change until it has finished
};

// Takes a text that is valid during the call.
class TextSink {
 public:
  virtual void set(std::string_view text) = 0;

 protected:
  ~TextSink() = default;
};

// The model of a trainer, in numbers that stay.
struct TrainedModel {
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t parameters = 0, trained_parameters = 0;
  std::vector<int64_t> end_ids = {};
};

class Trainer {
 public:
  virtual void release() noexcept = 0;
  // Does one optimizer step and the work after it (log, evaluate, save). ok; end (nothing left, or the event
  // sink stopped it: finish() follows); or an error after which the step did not happen. *metrics: of this
  // step, valid until the next call. After the finish() of a run that the sink stopped, this resumes the run.
  virtual int32_t step(std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // The halves of step(). backward(): forward and backward of the step's rows; *metrics: those known before
  // the update. It leaves gradients, and all else as it was. end: nothing is left; after an error no step has
  // begun. Error(unsupported): the run's steps have no halves.
  virtual int32_t backward(std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // Ends the step that backward() has begun. apply: false: the weights and the optimizer's state stay. After
  // an error before the update the step is still begun.
  virtual int32_t update(bool apply, std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // Sets the learning rate of the steps that begin from here on; NaN: the schedule's. any thread.
  virtual void set_learning_rate(double rate) noexcept = 0;
  // rows: to evaluate on, which leaves no trace in the run; null: the evaluation rows of the run.
  virtual int32_t evaluate(BatchSource* rows, std::span<const Metric>* metrics,
                           ErrorSink& error) noexcept = 0;
  // Tells the reports of the run why it was stopped between two steps.
  virtual void interrupted(std::string_view why) noexcept = 0;
  // Closes the run: the train summary record, train_end, trainer_state.json in output_dir.
  virtual int32_t finish(ErrorSink& error) noexcept = 0;
  virtual bool complete() noexcept = 0;  // the run is closed, and no step is left
  // Saves into `directory`; empty: into output_dir for the model, and into its checkpoint-<step> for a
  // checkpoint, which then counts as one that the run itself wrote (save_total_limit, trainer_state.json).
  virtual int32_t save(std::string_view directory, SaveKind kind, ErrorSink& error) noexcept = 0;
  // These and the ones below may be called on any thread beside a call of the others, and tell of the steps
  // that are done.
  virtual int64_t global_step() noexcept = 0;
  virtual int64_t max_steps() noexcept = 0;
  virtual const TrainedModel& trained_model() noexcept = 0;
  // Gives trainer_state.json with the metrics of the last step (telemetry::PublishedState).
  virtual int32_t describe(TextSink& state, ErrorSink& error) noexcept = 0;

 protected:
  ~Trainer() = default;
};

struct EvaluatorSpec {
  const config::RunOptions* options = nullptr;
  Model* model = nullptr;          // must outlive the evaluator
  Attention* attention = nullptr;  // or null: the built-in one; may be released before the evaluator
  SpecialTokens tokens = {};       // as in TrainerSpec
};

// Measures a model as the evaluations of a run do, without a run.
class Evaluator {
 public:
  virtual void release() noexcept = 0;
  // *metrics: valid until the next call.
  virtual int32_t evaluate(BatchSource& rows, std::span<const Metric>* metrics,
                           ErrorSink& error) noexcept = 0;

 protected:
  ~Evaluator() = default;
};

// Completions that are planned: each prompt has as many, which share its keys.
struct PlannedPrompts {
  std::span<const std::vector<int32_t>> prompts;  // ids
  int64_t completions = 1;
  int64_t max_new_tokens = 0;
  std::string_view keys = {};  // of options that say how many tokens these are
};

// A run that is planned and not executed. Every member has the value that a TrainerSpec with such batches
// has.
struct PlanSpec {
  const config::RunOptions* options = nullptr;
  ModelSpec model;
  std::span<const int64_t> lengths;  // tokens of each row of the largest micro-batch
  // lengths are those that max_length allows; the rows themselves may be shorter.
  bool longest_allowed = false;
  int64_t eval_longest = 0;             // tokens of the longest row of evaluation; 0: as in training
  std::span<const int32_t> new_tokens;  // as in TrainerSpec
  config::Levers levers = {};
  int64_t steps = 0;        // of the run; 0: not known
  double tokens = 0;        // tokens of all steps; 0: not known
  double epoch_tokens = 0;  // tokens of all rows, once; 0: not known
  bool time = true;         // false: no time is predicted or measured
  // The batches of an epoch (-1: streaming; 0: not known), which then say in place of `steps` how much the
  // run writes to its disks.
  std::optional<int64_t> batches_per_epoch = {};
  GeneratorSpec generator = {};
  PlannedPrompts rollouts = {};  // of a generation of a method that writes completions, before the steps
  PlannedPrompts samples = {};   // of sample_prompts, between the steps
  PlannedPrompts asked = {};     // what generation with these weights would take is asked, beside the run
};

class PlanSink {
 public:
  virtual void set(const telemetry::RunPlan& plan) = 0;

 protected:
  ~PlanSink() = default;
};

class Engine {
 public:
  virtual std::string_view info_json() noexcept = 0;  // versions of libtorch, oneDNN; kernels in use
  virtual int32_t set_threads(int32_t threads, ErrorSink& error) noexcept = 0;
  // Ends the threads that kernels started for calls on this thread; a later call starts them again.
  virtual int32_t end_threads(ErrorSink& error) noexcept = 0;
  // Refuses, before anything is read, a run that this build or machine cannot do, and a run with an invalid
  // output directory or checkpoint to resume from; config as in TrainerSpec.
  virtual int32_t check_run(const config::RunOptions& options, ErrorSink& error) noexcept = 0;
  // Returns Error(io) if the disks have no room for the files that the run will write: its checkpoints, as
  // far as the spec's batches_per_epoch tell how many, and a file of states. Reads headers of the model, and
  // no weights. create_trainer() checks the rest.
  virtual int32_t check_disks(const PlanSpec& spec, ErrorSink& error) noexcept = 0;
  virtual int32_t open_model(const ModelSpec& spec, Model** out, ErrorSink& error) noexcept = 0;
  // Converts the files of a model, or of an adapter, to another format or type.
  virtual int32_t convert(const ConvertSpec& spec, ErrorSink& error) noexcept = 0;
  virtual int32_t open_attention(const AttentionSpec& spec, Attention** out, ErrorSink& error) noexcept = 0;
  virtual int32_t create_trainer(const TrainerSpec& spec, Trainer** out, ErrorSink& error) noexcept = 0;
  virtual int32_t create_evaluator(const EvaluatorSpec& spec, Evaluator** out, ErrorSink& error) noexcept = 0;
  // counted: the peak of the memory counter for an evaluator with its model and one batch, whose rows have
  // the spec's lengths. No weights are read.
  virtual int32_t plan_evaluation(const PlanSpec& spec, int64_t* counted, ErrorSink& error) noexcept = 0;
  // Predicts the run with its samples, and what was asked of generation; room, model, way and rows stay
  // empty. Reads headers of the model, and no weights. With batches_per_epoch the plan's refusal by the disks
  // is that of check_disks().
  virtual int32_t plan(const PlanSpec& spec, PlanSink& plan, ErrorSink& error) noexcept = 0;

 protected:
  ~Engine() = default;
};

// The one exported function of libtrl_engine.so. shared_torch: the host had mapped the engine's own libtorch
// before, so no process-wide setting of libtorch may be changed.
extern "C" using EngineOpen =
    int32_t(*)(uint32_t interface_version, Host* host, int32_t shared_torch, Engine** out, ErrorSink* error);
inline constexpr const char* kEngineOpenName = "trl_engine_open";

}  // namespace trl::engine
