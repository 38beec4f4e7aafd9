#include "run/plan/too_little.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text/quantity.h"

namespace trl::run {

namespace {

using base::bytes_text;

// Formats a sufficient budget as a user would write it: a little more, since the process itself varies from
// run to run.
std::string enough(double bytes) {
  return fmt::format("{:.0f}MB", std::ceil(std::max(1.01 * bytes, bytes + 4e6) / 1e6));
}

// Returns the options that lower a term and are not set yet.
std::string lowered_by(const std::string& term, const config::Config& config,
                       const config::TrainingArguments& training) {
  std::vector<std::string> out;
  const auto add = [&](bool possible, const char* what) {
    if (possible) out.emplace_back(what);
  };
  const bool adapter = config.get_bool("use_peft");
  if (term.starts_with("weights")) {
    add(config.get("dtype") != "bfloat16", "dtype: bfloat16");
    add(!adapter, "use_peft: true");
    add(adapter && !config.get_bool("load_in_4bit"), "load_in_4bit: true");
  } else if (term == "gradients") {
    add(!training.optimizer_in_backward, "optimizer_in_backward: true");
    add(training.gradient_dtype == config::GradientType::of_weights, "gradient_dtype: bfloat16");
  } else if (term == "optimizer state") {
    const std::string name = config.get("optim");
    add(name.find("8bit") == std::string::npos, "optim: adamw_8bit");
    add(!name.starts_with("paged"), "optim: paged_adamw_8bit, whose state is in a file");
  } else if (term != "process" && term != "start of the process") {
    add(training.per_device_train_batch_size > 1,
        "a smaller per_device_train_batch_size with more gradient_accumulation_steps");
    add(true, "a smaller max_length");
  }
  std::string text;
  for (const std::string& one : out) text += (text.empty() ? "" : " or ") + one;
  return text;
}

// Returns "gradients, 540 MB (optimizer_in_backward: true); ...".
std::string largest_terms(const base::Json& plan, const config::Config& config,
                          const config::TrainingArguments& training) {
  std::vector<std::pair<double, std::string>> terms;
  for (const base::Json& term : plan.at("terms"))
    terms.emplace_back(term.at("bytes").get<double>(), term.at("name").get<std::string>());
  std::sort(terms.rbegin(), terms.rend());
  std::string text;
  std::vector<std::string> said;
  for (const auto& [bytes, name] : terms) {
    const std::string how = lowered_by(name, config, training);
    if (how.empty() || bytes < 0.02 * plan.at("peak_bytes").get<double>()) continue;
    if (std::find(said.begin(), said.end(), how) != said.end()) continue;
    said.push_back(how);
    text += fmt::format("{}{} ({}) by {}", text.empty() ? "" : "; ", name, bytes_text(bytes), how);
  }
  return text;
}

// Returns the keys with which the user has excluded ways that would take less.
std::string kept_keys(const config::Config& config) {
  std::string text;
  for (const char* key :
       {"gradient_checkpointing", "activation_checkpointing", "gradient_checkpointing_kwargs",
        "activation_checkpointing_kwargs", "recompute", "activation_offloading"}) {
    if (config.is_set(key)) text += (text.empty() ? "" : ", ") + std::string(key);
  }
  return text.empty() ? text : fmt::format(" What is set stays as it is, here {}.", text);
}

}  // namespace

void refuse_too_little(const config::Config& config, const config::TrainingArguments& training,
                       int64_t budget, const base::Json& plan, const std::string& way) {
  const double smallest = plan.at("peak_bytes");
  const std::string terms = largest_terms(plan, config, training);
  fail_key("memory_budget",
           "memory_budget: {} is too little: this run takes at least {} ({}), so {} would do.{} {}",
           bytes_text(static_cast<double>(budget)), bytes_text(smallest), way, enough(smallest),
           kept_keys(config),
           terms.empty() ? "No option lowers that: the process itself takes nearly all of it"
                         : "What can be lowered: " + terms);
}

}  // namespace trl::run
