#include "config/online/completion_records.h"

#include "base/error.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

std::vector<int64_t> pass_at_k(const Config& config, int64_t most) {
  constexpr const char* kKey = "eval_pass_at_k";
  std::vector<int64_t> numbers;
  for (const std::string& text : config.get_list(kKey)) {
    const std::optional<int64_t> k = base::parse_int64(text);
    if (!k || *k < 1 || *k > most)
      fail_key(kKey, "{}: {} is not accepted: give integers from 1 to num_generations_eval, which is {}",
               kKey, shown(text), most);
    numbers.push_back(*k);
  }
  return numbers;
}

}  // namespace

CompletionRecords completion_records(const Config& config, const OnlineArguments& arguments) {
  CompletionRecords out;
  out.logged = config.get_bool("log_completions");
  out.printed = config.get_optional_int("num_completions_to_print");
  out.unique_prompts = config.get_bool("log_unique_prompts");
  out.pass_at_k = pass_at_k(config, arguments.num_generations_eval);
  out.pass_reward = config.get_text("eval_pass_reward").value_or("");
  if (arguments.num_sample_generations == 0) return out;
  out.logged = out.samples = true;
  out.printed = 5;  // as PPOTrainer.generate_completions
  return out;
}

}  // namespace trl::config
