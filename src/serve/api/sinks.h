// The two ways in which completions become an answer: all at once, or as events while they are written.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/api/completion.h"
#include "serve/api/sampling.h"
#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

using Ids = std::vector<int32_t>;

// Makes a job of the prompts and gives it to the model; it is cancelled if the client goes. Equal completions
// of a prompt (Sampling::greedy) are computed once. Throws Refusal, also for a
// request with too many completions or tokens.
struct JobRequest {
  std::vector<Ids> prompts;
  Sampling sampling;
  int64_t max_tokens = 0;
  bool streams = false;
};
void submit(Context& context, ServedModel& model, const Exchange& exchange, JobRequest request,
            std::shared_ptr<JobSink> sink);

// Collects completions, n of each prompt, and sends the answer that `make` builds of them. refuse: how
// refusals are written.
class WholeSink final : public JobSink, public std::enable_shared_from_this<WholeSink> {
 public:
  using Make = std::function<Answer(std::vector<Completion> completions)>;
  using Refuse = Answer (*)(const Refusal&);
  WholeSink(TextPool& texts, std::shared_ptr<Reply> reply, const Sampling& sampling, Make make,
            Refuse refuse = answer_of)
      : texts_(texts),
        reply_(std::move(reply)),
        copies_(sampling.greedy ? sampling.n : 1),
        whole_(sampling.whole_logprobs),
        make_(std::move(make)),
        refuse_(refuse) {}
  void got(std::vector<Part> parts) noexcept override;
  void over() noexcept override;
  void failed(Refusal refusal) noexcept override;

 private:
  TextPool& texts_;
  const std::shared_ptr<Reply> reply_;
  const int64_t copies_;
  const bool whole_;
  const Make make_;
  const Refuse refuse_;
  std::vector<std::string> json_;
};

// The text and tokens of a completion since the last event of its stream.
struct Delta {
  size_t choice = 0;  // prompt * n + place
  bool first = false;
  std::string text;
  Ids ids;
  std::vector<TokenLogprob> logprobs;
  std::string finish;  // empty: it goes on
  base::Json stop_reason, weights;
  int64_t cached_tokens = 0;  // of its prompt; told at its end
};

// Writes events of one protocol.
class StreamFormat {
 public:
  virtual ~StreamFormat() = default;
  // Return JSON.
  virtual std::vector<std::string> first() { return {}; }  // before all others
  virtual std::vector<std::string> events(const Delta& delta) = 0;
  virtual std::string last(const std::vector<size_t>& tokens) = 0;  // after all, by choices; empty: none
};

class StreamSink final : public JobSink, public std::enable_shared_from_this<StreamSink> {
 public:
  StreamSink(TextPool& texts, std::shared_ptr<Reply> reply, size_t most_waiting, const Sampling& sampling,
             std::unique_ptr<StreamFormat> format)
      : strand_(std::make_shared<Strand>(texts)),
        reply_(std::move(reply)),
        most_waiting_(most_waiting),
        copies_(sampling.greedy ? static_cast<size_t>(sampling.n) : 1),
        whole_(sampling.whole_logprobs),
        json_is_new_(sampling.logprobs.has_value()),
        format_(std::move(format)) {}
  void got(std::vector<Part> parts) noexcept override;
  void over() noexcept override;
  void failed(Refusal refusal) noexcept override;

 private:
  struct State {               // of a completion
    size_t text = 0, ids = 0;  // told so far
    bool begun = false;
    Delta waiting;
  };
  template <class Body>
  void on_strand(Body body) noexcept;
  void add(const Part& part);
  void write(bool all);
  void begin();
  void fail(const Refusal& refusal) noexcept;
  const std::shared_ptr<Strand> strand_;
  const std::shared_ptr<Reply> reply_;
  const size_t most_waiting_, copies_;
  const bool whole_;
  const bool json_is_new_;  // of parts: without what earlier parts have sent
  // Members that only the strand uses.
  const std::unique_ptr<StreamFormat> format_;
  std::vector<State> states_;
  bool begun_ = false, over_ = false;
};

std::string event_of(std::string_view json);  // "data: JSON\n\n"

}  // namespace trl::serve
