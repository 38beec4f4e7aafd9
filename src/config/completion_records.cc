#include "config/completion_records.h"

namespace trl::config {

CompletionRecords completion_records(const Config& config) {
  CompletionRecords out;
  out.logged = config.get_bool("log_completions");
  out.printed = config.get_optional_int("num_completions_to_print");
  out.unique_prompts = config.get_bool("log_unique_prompts");
  return out;
}

}  // namespace trl::config
