// Checks that a plug-in computes the same as the built-in attention, with small batches of typical cases that
// kernels get wrong: several documents, an empty one, one of a token, lengths that are not a multiple of a
// block, grouped heads, windows, documents that share a prefix, an unusual scale; in the run's type and
// head_dim.
#include "kernels/attention/attention_plugin.h"

namespace trl::kernels {

namespace {

// A document longer than the model's window. Time grows with the square of the window, so kWidest represents
// all wider windows, and only as many of the model's heads take part as leave the built-in attention well
// below a second.
AttentionCase beyond_window(const AttentionNeeds& needs) {
  constexpr int64_t kWidest = 2048, kProducts = int64_t{1} << 30;  // elements of q times elements of k
  const int64_t window = std::min(needs.window, kWidest), length = window + 37;
  const int64_t group = needs.heads / needs.kv_heads;
  const int64_t heads = std::max<int64_t>(1, kProducts / (length * length / 2 * needs.head_dim));
  const int64_t kv_heads = std::clamp<int64_t>(heads / group, 1, needs.kv_heads);
  return {{5, length}, kv_heads * std::min(group, heads), kv_heads, window};
}

std::vector<AttentionCase> cases_of(const AttentionPlugin& plugin, const AttentionNeeds& needs) {
  std::vector<AttentionCase> cases = {
      {{33, 1, 20}, needs.heads, needs.kv_heads, 0}, {{1, 37, 0, 130, 2}, 4, 2, 0}, {{300}, 3, 1, 0}};
  const bool windows = (plugin.table().flags & TRL_KERNEL_WINDOW) != 0;
  if (windows) {
    cases.push_back({{5, 150, 64}, 4, 2, 7});
    cases.push_back({{140, 3}, 2, 2, 65});
  }
  if (needs.window > 0) {
    cases.push_back({{33, 1, 20}, needs.heads, needs.kv_heads, needs.window});
    cases.push_back(beyond_window(needs));
  }
  if ((plugin.table().flags & TRL_KERNEL_PREFIX) != 0) {
    cases.push_back({{70, 33, 5}, 4, 2, 0, {-1, 0, 0}});
    if (windows) cases.push_back({{70, 33, 5}, 4, 2, 19, {-1, 0, 0}});
  }
  return cases;
}

}  // namespace

AttentionPluginPtr open_attention_plugin(const std::string& path, const AttentionNeeds& needs,
                                         double* agreement) {
  auto plugin = std::make_shared<const AttentionPlugin>(path);
  plugin->require(needs);
  *agreement = 0;
  for (const AttentionCase& c : cases_of(*plugin, needs))
    *agreement = std::max(*agreement, compare_with_built_in(*plugin, needs.type, needs.head_dim, c));
  return plugin;
}

}  // namespace trl::kernels
