// Generation of many sequences at once, on the weights of a model as they are.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/sampling.h"
#include "generate/cache.h"
#include "generate/draft.h"
#include "generate/pace.h"
#include "generate/scheduler.h"
#include "model/model.h"

namespace trl::generate {

struct Request {
  std::vector<int32_t> ids;  // of the prompt
  engine::Sampling sampling;
  const model::Adapter* adapter = nullptr;  // null: the model alone
  int64_t count = 1;                        // these and the following: see engine::GenerationRequest
  uint64_t stream = 0;
  bool keeps = false;
  uint64_t stride = 1;   // from the stream of one completion to the next one's
  bool follows = false;  // its adapter is a version of one that is trained: see Generator::move_to()
};

// Translates a specification into the kind of the cache that generators share.
CacheKind cache_kind(const model::Model& model, const engine::GeneratorSpec& spec);

class Generator {
 public:
  // The cache is of cache_kind(model, spec).
  Generator(const model::Model& model, const engine::GeneratorSpec& spec, std::shared_ptr<Cache> cache);
  // limits.blocks is not read: the cache has its own. within_positions: see engine::GeneratorSpec.
  Generator(const model::Model& model, const Limits& limits, std::shared_ptr<Cache> cache,
            bool within_positions = false);
  // With limits.blocks blocks of its own.
  Generator(const model::Model& model, at::ScalarType compute, const Limits& limits)
      : Generator(model, limits,
                  std::make_shared<Cache>(model, CacheKind{compute},
                                          limits.blocks * generate::block_bytes(model, {compute}))) {}
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Returns the number of the first of request.count sequences; the others follow. Throws Error for a request
  // that cannot be served.
  int64_t add(Request request);
  // Computes one step and passes on its tokens. false: there was nothing to do. After an error, which leaves
  // all sequences as they were, the next call computes the same again.
  bool step(engine::GenerationSink& sink);
  // Throws Error(invalid_argument) for a sequence that did not end or was not kept. counted: these ids have
  // places among its draws, as tokens of one completion do.
  void extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens, bool counted = false);
  void end(int64_t sequence);  // any; without a call of the sink; unknown: does nothing
  // Moves the sequences of the requests that follow versions to this one, between two steps: their next
  // tokens are computed with it.
  void move_to(const model::Adapter& version);
  bool idle() const { return scheduler_->idle(); }
  void release_memory();
  void release_copies() { cache_->release_copies(); }  // of weights, until the next step
  engine::GenerationUse use() const;
  const Scheduler& scheduler() const { return *scheduler_; }
  const Cache& cache() const { return *cache_; }
  int64_t block_bytes() const { return cache_->memory.block_bytes(); }

 private:
  // Parts of a prompt that the sink has heard of.
  struct Told {
    bool begun = false;
    int64_t ids = 1;  // the first has none before it
  };
  struct State {
    std::shared_ptr<const Request> request;
    std::shared_ptr<Told> told;     // of all sequences of the request
    const model::Adapter* adapter;  // the request's, or the version that it was moved to
    uint64_t stream;
    int64_t begin = 0;  // the first place of the completion that is being generated
    int64_t drawn = 0;  // tokens, of all completions
    int64_t left = 0;   // of this completion
    bool ended = false;
    engine::Constraint::Place place = nullptr;  // of the request's constraint
    std::optional<Draft> draft = {};            // with prompt lookup
  };
  // Steps that a rehearsal has computed: it leaves out those that take no more memory.
  struct Rehearsed {
    struct Size {
      int64_t rows, ready;
    };
    std::vector<Size> sizes;
    int64_t key_bytes = 0;
  };
  // The tokens of a sequence: one from each of its rows, as long as the next row is of that token.
  struct Choice {
    int64_t sequence, row, rows = 1;
    std::vector<engine::Token> tokens = {};
    std::string_view problem = {};  // why there is no other token
  };
  // An id of a prompt, whose log-probability comes from this row.
  struct Scored {
    int64_t sequence, row;
    engine::PromptToken token;
  };
  struct Results {
    std::vector<Choice> choices;
    std::vector<Scored> scored;
  };
  // Rows of logits, and who needs them: one of both.
  struct Need {
    int64_t row, rows;
    Choice* choice;
    Scored* scored;
  };
  const model::Adapter* adapter_of(const Scheduler::Work& work) const {
    return states_.at(work.sequence).adapter;
  }
  bool propose();
  int64_t most_proposed(int64_t sequence) const;
  void count(const Scheduler::Step& step, const std::vector<Choice>& choices, double seconds) noexcept;
  Scheduler::Step next_step(engine::GenerationSink& sink);
  void allocate(const Scheduler::Step& step);
  bool cannot_go_on(int64_t sequence) const;
  std::string what_is_missing(int64_t sequence) const;
  std::string what_is_allowed(int64_t sequence) const;
  Results compute(const std::vector<const Scheduler::Work*>& work);
  void add_scored(const Scheduler::Work& work, model::SequenceRows& rows, std::vector<Scored>& scored) const;
  void add_rows(const Scheduler::Work& work, model::SequenceRows& rows);
  const at::Tensor& block(int32_t id);
  bool is_left_out(const model::SequenceRows& rows, const std::vector<Choice>& choices);
  void fulfil_all(std::span<const Need> needs, const at::Tensor& logits) const;
  void fulfil(const Need& need, const at::Tensor& logits) const;
  void choose(Choice& choice, const at::Tensor& logits) const;
  void check(const Request& request) const;
  void check_ids(std::span<const int32_t> ids, int64_t before) const;
  engine::Finish end_of(int64_t sequence, int32_t id) const;
  bool has_end(const engine::Sampling& sampling) const;
  engine::Finish follow(State& state, int32_t id, engine::Finish how) const;
  void forget(int64_t sequence);  // if there is such a one
  void tell_prompts(const Scheduler::Step& step, const std::vector<Scored>& scored,
                    engine::GenerationSink& sink);
  void pass_on(const Choice& choice, engine::GenerationSink& sink);
  bool pass_on(int64_t sequence, engine::Token token, engine::GenerationSink& sink);
  void finish(int64_t sequence, engine::Finish how, engine::GenerationSink& sink,
              const std::string& error = "");
  template <class Call>
  void unlocked(const Call& call) const;

  const model::Model& model_;
  const std::shared_ptr<Cache> cache_;
  const bool within_positions_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<int64_t, State> states_;
  Rehearsed rehearsed_;
  Pace pace_;
  double right_ = 0.7;  // of the ids that drafts gave, lately
  int64_t proposed_ = 0, accepted_ = 0;
};

}  // namespace trl::generate
