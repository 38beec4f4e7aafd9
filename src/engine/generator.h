// Completions, written by the engine: requests, tokens and the generator.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host.h"
#include "engine/sampling.h"

namespace trl::engine {

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
  // Appends tokens to a sequence that ended and was kept, and continues it.
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

}  // namespace trl::engine
