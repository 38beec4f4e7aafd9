#include "serve/api/metrics.h"

#include <fmt/format.h>

#include <ctime>

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

struct Known {  // of a model
  Counters counters;
  capi::GeneratorUse use;
};

double used_share(const Known& of) {
  return of.use.blocks_limit > 0
             ? static_cast<double>(of.use.blocks) / static_cast<double>(of.use.blocks_limit)
             : 0;
}

class Page {
 public:
  explicit Page(const Context& context) {
    for (const auto& model : context.models)
      models_.emplace_back(fmt::format("model_name=\"{}\"", escaped(model->name())),
                           Known{model->worker().counters(), context.table.use_of(model->generator())});
  }

  template <class Value>
  void number(std::string_view name, std::string_view type, std::string_view help, Value value) {
    head(name, type, help);
    for (const auto& [label, known] : models_)
      text_ += fmt::format("{}{{{}}} {}\n", name, label, value(known));
  }

  template <class Value>
  void histogram(std::string_view name, std::string_view help, Value value) {
    head(name, "histogram", help);
    for (const auto& [label, known] : models_) {
      const auto& of = value(known.counters);
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
    for (const auto& [label, known] : models_) {
      std::map<std::string, int64_t> all{{"stop", 0}, {"length", 0}, {"abort", 0}};
      for (const auto& [reason, count] : known.counters.ended)
        all[reason == "stop_string" ? "stop" : reason == "cancelled" ? "abort" : reason] += count;
      for (const auto& [reason, count] : all)
        text_ += fmt::format("{}{{{},finished_reason=\"{}\"}} {}\n", name, label, reason, count);
    }
  }

  // Names the adapters of requests, as vLLM does: the value is the time.
  void adapters(const Context& context) {
    constexpr std::string_view kName = "vllm:lora_requests_info";
    head(kName, "gauge", "Adapters of requests that are computed and that wait; the value is the time.");
    for (size_t i = 0; i < models_.size(); ++i) {
      const ServedModel& model = *context.models[i];
      if (!model.options().enable_lora && model.adapters().all().empty()) continue;
      const Counters& counters = models_[i].second.counters;
      text_ += fmt::format(
          "{}{{max_lora=\"{}\",waiting_lora_adapters=\"{}\",running_lora_adapters=\"{}\"}} {}\n", kName,
          model.options().max_loras, escaped(fmt::format("{}", fmt::join(counters.waiting_adapters, ","))),
          escaped(fmt::format("{}", fmt::join(counters.running_adapters, ","))),
          static_cast<int64_t>(std::time(nullptr)));
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
  std::vector<std::pair<std::string, Known>> models_;
  std::string text_;
};

using OfModel = const Known&;

void add_counts(Page& page) {
  page.number("vllm:num_requests_running", "gauge", "Completions that are computed.",
              [](OfModel of) { return of.counters.running; });
  page.number("vllm:num_requests_waiting", "gauge", "Completions that wait.",
              [](OfModel of) { return of.counters.waiting; });
  page.number("vllm:kv_cache_usage_perc", "gauge",
              "Share of the blocks of keys and values that are used; 1: all.",
              [](OfModel of) { return base::format_double(used_share(of)); });
  page.number("vllm:prefix_cache_queries_total", "counter",
              "Tokens of prompts that were looked for in the cache.",
              [](OfModel of) { return of.counters.prefix_queries; });
  page.number("vllm:prefix_cache_hits_total", "counter", "Those of them whose keys and values were found.",
              [](OfModel of) { return of.counters.prefix_hits; });
  page.number("vllm:num_preemptions_total", "counter",
              "Times that a completion gave its blocks back, to be computed again, for lack of blocks.",
              [](OfModel of) { return of.use.preempted; });
  page.number("vllm:prompt_tokens_total", "counter", "Tokens of prompts.",
              [](OfModel of) { return of.counters.prompt_tokens; });
  page.number("vllm:generation_tokens_total", "counter", "Tokens that were written.",
              [](OfModel of) { return of.counters.generation_tokens; });
  page.number("vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens that prompt lookup has proposed.",
              [](OfModel of) { return of.use.proposed; });
  page.number("vllm:spec_decode_num_accepted_tokens_total", "counter", "Those of them that were right.",
              [](OfModel of) { return of.use.accepted; });
  page.ended("vllm:request_success_total", "Completions that are over, by the reason.");
}

void add_histograms(Page& page) {
  using Counted = const Counters&;
  const auto add = [&](std::string_view name, std::string_view help, auto member) {
    page.histogram(
        name, help, [member](Counted of) -> const auto& { return of.*member; });
  };
  add("vllm:time_to_first_token_seconds", "Seconds until the first token.", &Counters::first_token);
  add("vllm:inter_token_latency_seconds", "Seconds between tokens.", &Counters::between_tokens);
  add("vllm:request_time_per_output_token_seconds", "Mean seconds between the tokens of a completion.",
      &Counters::mean_between_tokens);
  add("vllm:e2e_request_latency_seconds", "Seconds from a request to the end of a completion.",
      &Counters::whole);
  add("vllm:request_queue_time_seconds", "Seconds that completions waited.", &Counters::queued);
  add("vllm:request_inference_time_seconds", "Seconds from the beginning of a completion to its end.",
      &Counters::computed);
  add("vllm:request_prefill_time_seconds", "Seconds from the beginning of a completion to its first token.",
      &Counters::prefill);
  add("vllm:request_decode_time_seconds", "Seconds from the first token of a completion to its last.",
      &Counters::decode);
  add("vllm:request_prompt_tokens", "Tokens of a prompt.", &Counters::prompt_size);
  add("vllm:request_generation_tokens", "Tokens of a completion.", &Counters::generation_size);
  add("vllm:request_params_n", "Completions of a prompt that were asked for.", &Counters::completions);
  add("vllm:request_params_max_tokens", "Tokens that a completion may have.", &Counters::max_tokens);
  add("trl_step_tokens", "Tokens that were written in a step.", &Counters::step_tokens);
}

}  // namespace

std::string metrics_text(const Context& context) {
  Page page(context);
  add_counts(page);
  add_histograms(page);
  page.adapters(context);
  page.weights(context);
  page.of_server("trl_connections", "gauge", "Open connections.", context.connections);
  page.of_server("trl_held_bytes", "gauge", "Bytes of bodies and of answers that connections hold.",
                 context.held_bytes);
  page.of_server("trl_slow_readers_total", "counter",
                 "Connections that were closed because nothing was read.", context.slow_readers);
  return page.take();
}

void metrics(Context& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->reply->send({200, metrics_text(context), "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace trl::serve
