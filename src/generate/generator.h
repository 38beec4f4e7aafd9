// Generation of many sequences at once, on the weights of a model as they are.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "generate/scheduler.h"
#include "model/model.h"

namespace trl::generate {

struct Request {
  std::vector<int32_t> ids;  // of the prompt
  engine::Sampling sampling;
  const model::Adapter* adapter = nullptr;  // null: the model alone
  int64_t count = 1;                        // completions
  // The number of the first completion's draws: token t of completion c is drawn with (seed, stream + c, t).
  uint64_t stream = 0;
  bool pauses = false;  // its sequences keep their keys at their end, so that extend() goes on with them
};

enum class Finish : uint8_t { stop_id, length, receiver, failed };

using engine::Token;

class Receiver {
 public:
  // false: the sequence ends.
  virtual bool on_token(int64_t sequence, const Token& token) noexcept = 0;
  // error: for Finish::failed; else empty.
  virtual void on_end(int64_t sequence, Finish how, const std::string& error) noexcept = 0;

 protected:
  ~Receiver() = default;
};

class Generator {
 public:
  // compute: bfloat16 over float32 weights is autocast.
  Generator(const model::Model& model, at::ScalarType compute, Limits limits);

  // Returns the number of the first of request.count sequences; the others follow. Throws Error for a request
  // that cannot be served.
  int64_t add(Request request);
  // Computes one step and passes on its tokens. false: there was nothing to do. After an error, which leaves
  // all sequences as they were, the next call computes the same again.
  bool step(Receiver& receiver);
  void extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens);  // a paused one
  void end(int64_t sequence);  // a paused one, or any other: without a call of the receiver
  bool idle() const { return scheduler_.idle(); }
  const Scheduler& scheduler() const { return scheduler_; }
  int64_t block_bytes() const { return memory_.block_bytes(); }

 private:
  struct State {
    std::shared_ptr<const Request> request;
    uint64_t stream;
    int64_t begin = 0;  // the first place of the completion that is being generated
    int64_t drawn = 0;  // tokens, of all completions
    int64_t left = 0;   // of this completion
  };
  struct Choice {
    int64_t sequence, row;
    Token token = {};
    std::string_view problem = {};  // why there is no token
  };
  const model::Adapter* adapter_of(const Scheduler::Work& work) const {
    return states_.at(work.sequence).request->adapter;
  }
  std::vector<Choice> compute(const std::vector<const Scheduler::Work*>& work);
  void add_rows(const Scheduler::Work& work, model::SequenceRows& rows);
  void choose(Choice& choice, const at::Tensor& logits) const;
  void pass_on(const Choice& choice, Receiver& receiver);
  void finish(int64_t sequence, Finish how, Receiver& receiver, const std::string& error = "");

  const model::Model& model_;
  at::ScalarType compute_;
  Scheduler scheduler_;
  model::KvMemory memory_;
  std::map<int64_t, State> states_;
  std::map<const model::Adapter*, uint64_t> numbers_;  // of adapters
};

// The limits of a generator on this model; blocks: as many as `bytes` hold, at least one.
Limits limits_for(const model::Model& model, at::ScalarType compute, int64_t bytes);

}  // namespace trl::generate
