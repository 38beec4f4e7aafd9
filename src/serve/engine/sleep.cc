#include "serve/engine/sleep.h"

#include <fmt/format.h>

#include "serve/api/error.h"

namespace trl::serve {

std::string SleepState::refusal() const {
  if (!whole_) return "the weights are incomplete, since an update of them failed: send all of them again";
  const std::string_view tags = weights_ ? "?tags=kv_cache" : keys_ ? "?tags=weights" : "";
  return fmt::format("the model is asleep: POST /wake_up{} first", tags);
}

void check_level(int64_t level, SleepMode mode) {
  if (level != 1 && level != 2)
    throw Refusal(400, fmt::format("level: {} is not accepted; give 1 or 2", level), "level");
  if (level == 2 && mode == SleepMode::keep)
    throw Refusal(400, "mode: keep is for level 1; give abort or wait with level 2", "mode");
}

SleepMode sleep_mode(std::string_view name) {
  if (name == "abort") return SleepMode::abort;
  if (name == "wait") return SleepMode::wait;
  if (name == "keep") return SleepMode::keep;
  throw Refusal(400, fmt::format("mode: \"{}\" is not accepted; give abort, wait or keep", name), "mode");
}

WakeTags wake_tags(std::span<const std::string> names) {
  if (names.empty()) return {true, true};
  WakeTags tags;
  for (const std::string& list : names) {
    for (size_t at = 0; at <= list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      const std::string_view tag = std::string_view(list).substr(at, end - at);
      if (tag == "weights")
        tags.weights = true;
      else if (tag == "kv_cache")
        tags.kv_cache = true;
      else
        throw Refusal(400, fmt::format("tags: \"{}\" is not accepted; give weights, kv_cache or both", tag),
                      "tags");
      at = end + 1;
    }
  }
  return tags;
}

}  // namespace trl::serve
