#include "serve/api/state.h"

#include <unistd.h>

#include <exception>
#include <mutex>

#include "serve/api/fields.h"

namespace trl::serve {

namespace {

void send(const Exchange& exchange, const base::Json& json) { exchange.reply->send({200, json_text(json)}); }

// Throws Refusal(503) if requests are not answered.
void check_health(const Context& context) {
  if (context.draining) throw Refusal(503, "the server is stopping");
  for (const auto& model : context.models)
    if (const std::string failure = model->worker().failure(); !failure.empty()) throw Refusal(503, failure);
}

base::Json one_of(const char* name, base::Json value) {
  base::Json out = base::Json::object();
  out[name] = std::move(value);
  return out;
}

// Answers when all models have been reset, whose threads share this.
class Resets {
 public:
  Resets(std::shared_ptr<Reply> reply, Answer answer)
      : reply_(std::move(reply)), answer_(std::move(answer)) {}
  ~Resets() {
    why_ ? send_refusal(*reply_, refusal_of(why_)) : send_answer(*reply_, [&] { return answer_; });
  }
  Resets(const Resets&) = delete;
  Resets& operator=(const Resets&) = delete;
  void ran(const std::exception_ptr& why) {
    const std::lock_guard lock(mutex_);
    if (!why_) why_ = why;
  }

 private:
  const std::shared_ptr<Reply> reply_;
  const Answer answer_;
  std::mutex mutex_;
  std::exception_ptr why_;
};

void reset(Context& context, const Exchange& exchange, const base::Json& answer) {
  const auto resets = std::make_shared<Resets>(exchange.reply, Answer{200, json_text(answer)});
  try {
    for (const auto& model : context.models)
      model->worker().between_steps(
          [](trl_generator* generator) {
            ErrorHandle error;
            check(trl_generator_release_memory(generator, error.out()), error);
            return true;
          },
          [resets](const std::exception_ptr& why) { resets->ran(why); });
  } catch (...) {
    resets->ran(std::current_exception());
  }
}

}  // namespace

void health(Context& context, const std::shared_ptr<Exchange>& exchange) {
  check_health(context);
  exchange->reply->send({200, ""});
}

void old_health(Context& context, const std::shared_ptr<Exchange>& exchange) {
  check_health(context);
  send(*exchange, one_of("status", "ok"));
}

void version(Context&, const std::shared_ptr<Exchange>& exchange) {
  send(*exchange, one_of("version", trl_version_string()));
}

void server_info(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const ServedModel& model = *context.models.front();
  base::Json of_model = base::Json::object();
  of_model["model"] = model.name();
  of_model["logprobs_mode"] = "processed_logprobs";
  of_model["max_model_len"] = model.max_length() ? base::Json(*model.max_length()) : base::Json();
  of_model["dtype"] = model.dtype();
  base::Json config = base::Json::object();
  config["model_config"] = std::move(of_model);
  config["weight_transfer_config"] = nullptr;
  config["parallel_config"] = {{"tensor_parallel_size", 1}, {"data_parallel_size", 1}, {"world_size", 1}};
  base::Json ours = base::Json::object();
  ours["version"] = trl_version_string();
  ours["weights"] = base::Json::array();
  if (model.options().enable_lora) ours["weights"].push_back("adapter");
  if (model.weights().can_change())
    for (const char* way : {"http", "shared_memory"}) ours["weights"].push_back(way);
  ours["uid"] = static_cast<int64_t>(::geteuid());
  ours["weights_version"] = model.weights().version();
  base::Json out = base::Json::object();
  out["vllm_config"] = std::move(config);
  out["libtrl"] = std::move(ours);
  send(*exchange, out);
}

void world_size(Context&, const std::shared_ptr<Exchange>& exchange) {
  send(*exchange, one_of("world_size", 1));
}

void tensor_parallel_size(Context&, const std::shared_ptr<Exchange>& exchange) {
  send(*exchange, one_of("tensor_parallel_size", 1));
}

void reset_prefix_cache(Context& context, const std::shared_ptr<Exchange>& exchange) {
  reset(context, *exchange, one_of("success", true));
}

void old_reset_prefix_cache(Context& context, const std::shared_ptr<Exchange>& exchange) {
  reset(context, *exchange, one_of("message", "Request received, resetting prefix cache status: True"));
}

}  // namespace trl::serve
