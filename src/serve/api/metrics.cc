#include "serve/api/metrics.h"

#include <fmt/format.h>

#include "base/text/number.h"

namespace trl::serve {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

class Page {
 public:
  explicit Page(const Context& context) {
    for (const auto& model : context.models)
      models_.emplace_back(fmt::format("model_name=\"{}\"", escaped(model->name())),
                           model->worker().counters());
  }

  template <class Value>
  void number(std::string_view name, std::string_view type, std::string_view help, Value value) {
    head(name, type, help);
    for (const auto& [label, counters] : models_)
      text_ += fmt::format("{}{{{}}} {}\n", name, label, value(counters));
  }

  template <class Value>
  void histogram(std::string_view name, std::string_view help, Value value) {
    head(name, "histogram", help);
    for (const auto& [label, counters] : models_) {
      const auto& of = value(counters);
      int64_t below = 0;
      for (size_t i = 0; i < of.counts.size(); ++i) {
        below += of.counts[i];
        const std::string bound = i < of.bounds.size() ? base::format_double(of.bounds[i]) : "+Inf";
        text_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, label, bound, below);
      }
      text_ += fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, label, base::format_double(of.sum),
                           name, label, of.count);
    }
  }

  void ended(std::string_view name, std::string_view help) {
    head(name, "counter", help);
    for (const auto& [label, counters] : models_) {
      std::map<std::string, int64_t> all{{"stop", 0}, {"length", 0}, {"abort", 0}};
      for (const auto& [reason, count] : counters.ended)
        all[reason == "stop_string" ? "stop" : reason == "cancelled" ? "abort" : reason] += count;
      for (const auto& [reason, count] : all)
        text_ += fmt::format("{}{{{},finished_reason=\"{}\"}} {}\n", name, label, reason, count);
    }
  }

  void weights(const Context& context) {
    head("trl_weights_version", "gauge", "Version of the weights.");
    for (const auto& model : context.models)
      text_ += fmt::format("trl_weights_version{{model_name=\"{}\"}} {}\n", escaped(model->name()),
                           model->weights().version());
    head("trl_weight_updates_total", "counter", "Updates of the weights, by the result.");
    for (const auto& model : context.models)
      for (const auto& [result, count] : {std::pair{"done", model->weights().counts().done},
                                          std::pair{"refused", model->weights().counts().refused}})
        text_ += fmt::format("trl_weight_updates_total{{model_name=\"{}\",result=\"{}\"}} {}\n",
                             escaped(model->name()), result, count);
    head("trl_weight_swap_seconds_total", "counter", "Seconds in which weights were written.");
    for (const auto& model : context.models)
      text_ += fmt::format("trl_weight_swap_seconds_total{{model_name=\"{}\"}} {}\n", escaped(model->name()),
                           base::format_double(model->weights().counts().swap_seconds));
  }

  void of_server(std::string_view name, std::string_view type, std::string_view help, int64_t value) {
    head(name, type, help);
    text_ += fmt::format("{} {}\n", name, value);
  }

  std::string take() { return std::move(text_); }

 private:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  std::vector<std::pair<std::string, Counters>> models_;
  std::string text_;
};

}  // namespace

std::string metrics_text(const Context& context) {
  Page page(context);
  page.number("vllm:num_requests_running", "gauge", "Completions that are computed.",
              [](const Counters& of) { return of.running; });
  page.number("vllm:num_requests_waiting", "gauge", "Requests that wait.",
              [](const Counters& of) { return of.waiting; });
  page.number("vllm:prompt_tokens_total", "counter", "Tokens of prompts.",
              [](const Counters& of) { return of.prompt_tokens; });
  page.number("vllm:generation_tokens_total", "counter", "Tokens that were written.",
              [](const Counters& of) { return of.generation_tokens; });
  page.ended("vllm:request_success_total", "Completions that are over, by the reason.");
  page.histogram(
      "vllm:time_to_first_token_seconds", "Seconds until the first token.",
      [](const Counters& of) -> const auto& { return of.first_token; });
  page.histogram(
      "vllm:inter_token_latency_seconds", "Seconds between tokens.",
      [](const Counters& of) -> const auto& { return of.between_tokens; });
  page.histogram(
      "vllm:e2e_request_latency_seconds", "Seconds of whole requests.",
      [](const Counters& of) -> const auto& { return of.whole; });
  page.histogram(
      "vllm:request_queue_time_seconds", "Seconds that requests waited.",
      [](const Counters& of) -> const auto& { return of.queued; });
  page.histogram(
      "vllm:request_prompt_tokens", "Tokens of a prompt.",
      [](const Counters& of) -> const auto& { return of.prompt_size; });
  page.histogram(
      "vllm:request_generation_tokens", "Tokens of a completion.",
      [](const Counters& of) -> const auto& { return of.generation_size; });
  page.histogram(
      "vllm:iteration_tokens_total", "Tokens that were written in a step.",
      [](const Counters& of) -> const auto& { return of.step_tokens; });
  page.weights(context);
  page.of_server("trl_connections", "gauge", "Open connections.", context.connections);
  page.of_server("trl_slow_readers_total", "counter",
                 "Connections that were closed because nothing was read.", context.slow_readers);
  return page.take();
}

void metrics(Context& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->reply->send({200, metrics_text(context), "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace trl::serve
