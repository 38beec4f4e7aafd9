#include "serve/api/sinks.h"

#include <fmt/format.h>

#include <algorithm>

namespace trl::serve {

namespace {

// Has the job computed with the adapter of that name, in the version that it has now.
void choose_adapter(const ServedModel& model, const std::string& name, Job& job) {
  if (std::ranges::find(model.names(), name) != model.names().end()) return;
  job.adapter = model.adapters().find(name);
  if (job.adapter == nullptr)
    throw Refusal(404, fmt::format("The model `{}` does not exist.", name), "model");
}

// Puts errors about a form into the words of the request.
std::unique_ptr<ConfigHandle> options_of(const std::optional<Form>& form,
                                         const std::map<std::string, std::string>& options) {
  try {
    return job_options({options.begin(), options.end()});
  } catch (const Error& error) {
    throw in_words_of(form, error);
  }
}

bool asks_for_form(const std::map<std::string, std::string>& options) {
  return std::ranges::any_of(kFormOptions, [&](const char* option) { return options.contains(option); });
}

// Refuses a request that would take too much memory, or keep the model for too long.
void check_amount(const JobRequest& request, const Limits& limits) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  const int64_t n = request.sampling.n;  // both are limited
  const int64_t all = prompts * n;
  const std::string asked = fmt::format("{} prompt{} with n = {}", prompts, prompts == 1 ? "" : "s", n);
  if (all > limits.max_completions)
    throw Refusal(
        400,
        fmt::format("n: {} are {} completions; ask for at most {} in a request (serve.max_completions): "
                    "give fewer prompts, or a smaller n",
                    asked, all, limits.max_completions),
        "n");
  const int64_t most = limits.max_request_tokens / all;
  if (request.max_tokens > most)
    throw Refusal(
        400,
        fmt::format("max_tokens: {}, of at most {} tokens each, are more than {} tokens "
                    "(serve.max_request_tokens): {}",
                    asked, request.max_tokens, limits.max_request_tokens,
                    most > 0 ? fmt::format("give max_tokens of at most {}, or fewer completions", most)
                             : "give fewer completions"),
        "max_tokens");
}

}  // namespace

void submit(Context& context, ServedModel& model, const Exchange& exchange, JobRequest request,
            std::shared_ptr<JobSink> sink) {
  check_amount(request, context.options.limits);
  auto job = std::make_shared<Job>();
  const Sampling& sampling = request.sampling;
  std::map<std::string, std::string> options = sampling.options;
  job->n = sampling.greedy ? 1 : sampling.n;
  options["generate.num_return_sequences"] = std::to_string(job->n);
  options["generate.max_new_tokens"] = std::to_string(request.max_tokens);
  if (sampling.model && !sampling.model->empty()) choose_adapter(model, *sampling.model, *job);
  if (job->adapter) options["generate.adapter"] = job->adapter->key;
  job->began = [reply = exchange.reply, &model, adapter = job->adapter](int64_t trained) {
    const int64_t version = adapter ? adapter->version : trained >= 0 ? trained : model.weights().version();
    reply->note("X-TRL-Weights-Version", std::to_string(version));
  };
  options["generate.usage"] = "true";
  const bool takes_new = request.streams && sampling.logprobs;
  if (takes_new) options["generate.take"] = "new";
  job->options = options_of(sampling.form, options);
  job->asked = sampling.n;
  job->prompts = std::move(request.prompts);
  job->stream = sampling.stream;
  job->max_tokens = request.max_tokens;
  job->streams = request.streams;
  job->logprobs = sampling.logprobs.has_value();
  job->form = sampling.form;
  job->peer = exchange.request.peer;
  job->sink = std::move(sink);
  exchange.reply->on_gone([weak = std::weak_ptr<Job>(job), &worker = model.worker()] {
    if (const std::shared_ptr<Job> gone = weak.lock()) worker.cancel(*gone);
  });
  if (asks_for_form(options))
    context.forms.submit(job, model.generator(), model.worker());
  else
    model.worker().submit(job);
}

void WholeSink::got(std::vector<Part> parts) noexcept {
  try {
    for (Part& part : parts) {
      if (json_.size() <= part.completion) json_.resize(part.completion + 1);
      json_[part.completion] = std::move(part.json);
    }
  } catch (...) {
    reply_->give_up();
  }
}

void WholeSink::over() noexcept {
  try {
    texts_.post([me = shared_from_this()] {
      try {
        std::vector<Completion> all;
        for (const std::string& json : me->json_)
          for (int64_t i = 0; i < me->copies_; ++i) all.push_back(read_completion(json, me->whole_));
        me->reply_->send(me->make_(std::move(all)));
      } catch (...) {
        send_refusal(*me->reply_, current_refusal(), me->refuse_);
      }
    });
  } catch (...) {
    reply_->give_up();
  }
}

void WholeSink::failed(Refusal refusal) noexcept { send_refusal(*reply_, refusal, refuse_); }

std::string event_of(std::string_view json) { return std::string("data: ").append(json).append("\n\n"); }

// Runs body after all that came before, unless the stream has ended.
template <class Body>
void StreamSink::on_strand(Body body) noexcept {
  try {
    strand_->post([me = shared_from_this(), body = std::move(body)] {
      if (me->over_) return;
      try {
        body(*me);
      } catch (...) {
        me->fail(current_refusal());
      }
    });
  } catch (...) {
    reply_->give_up();
  }
}

void StreamSink::got(std::vector<Part> parts) noexcept {
  on_strand([parts = std::move(parts)](StreamSink& me) {
    for (const Part& part : parts) me.add(part);
    me.write(false);
  });
}

// Adds a part to the state of its completion.
void StreamSink::add(const Part& part) {
  if (states_.size() <= part.completion) states_.resize(part.completion + 1);
  State& state = states_[part.completion];
  Delta& delta = state.waiting;
  delta.text += part.text;
  delta.ids.insert(delta.ids.end(), part.ids.begin(), part.ids.end());
  state.text += part.text.size();
  state.ids += part.ids.size();
  if (part.json.empty()) return;
  const Completion all = read_completion(part.json, whole_);
  const size_t text = json_is_new_ ? 0 : std::min(state.text, all.text.size());
  const size_t ids = json_is_new_ ? 0 : std::min(state.ids, all.ids.size());
  delta.text += all.text.substr(text);
  delta.ids.insert(delta.ids.end(), all.ids.begin() + static_cast<std::ptrdiff_t>(ids), all.ids.end());
  delta.logprobs.insert(delta.logprobs.end(), all.logprobs.begin(), all.logprobs.end());
  state.text += all.text.size() - text;
  state.ids += all.ids.size() - ids;
  delta.finish = all.finish;
  delta.stop_reason = all.stop_reason;
  delta.cached_tokens = all.finish.empty() ? 0 : all.cached_tokens;
  delta.weights = all.weights;
}

void StreamSink::begin() {
  if (begun_) return;
  Answer head;
  head.type = "text/event-stream; charset=utf-8";
  head.fields.emplace_back("Cache-Control", "no-store");
  reply_->begin(std::move(head));
  begun_ = true;
  for (const std::string& json : format_->first()) reply_->add(event_of(json));
}

// Writes the parts that wait; unless `all`, only while the client keeps up.
void StreamSink::write(bool all) {
  if (!all && reply_->waiting() > most_waiting_) return;
  begin();
  std::string events;
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    Delta delta = std::exchange(state.waiting, {});
    if (delta.text.empty() && delta.ids.empty() && delta.finish.empty()) continue;
    delta.first = !std::exchange(state.begun, true);
    for (size_t copy = 0; copy < copies_; ++copy) {
      delta.choice = i * copies_ + copy;
      for (const std::string& json : format_->events(delta)) events += event_of(json);
    }
  }
  if (!events.empty()) reply_->add(std::move(events));
}

void StreamSink::over() noexcept {
  on_strand([](StreamSink& me) {
    me.write(true);
    std::vector<size_t> tokens;
    for (const State& state : me.states_) tokens.insert(tokens.end(), me.copies_, state.ids);
    if (const std::string json = me.format_->last(tokens); !json.empty()) me.reply_->add(event_of(json));
    me.reply_->add(event_of("[DONE]"));
    me.reply_->end();
    me.over_ = true;
  });
}

void StreamSink::failed(Refusal refusal) noexcept {
  on_strand([refusal = std::move(refusal)](StreamSink& me) { me.fail(refusal); });
}

// On the strand.
void StreamSink::fail(const Refusal& refusal) noexcept {
  over_ = true;
  if (!begun_) return send_refusal(*reply_, refusal);
  try {
    reply_->add(event_of(error_json(refusal)) + event_of("[DONE]"));
    reply_->end();
  } catch (...) {
    reply_->give_up();
  }
}

}  // namespace trl::serve
