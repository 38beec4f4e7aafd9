#include "model/families.h"

#include "base/nearest.h"

namespace trl::model {

namespace {
constexpr BiasRule kNone = BiasRule::none;
constexpr BiasRule kKey = BiasRule::by_key;
constexpr SlidingRule kByLayer = SlidingRule::by_layer;
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", 0, kKey, kKey, kKey, false, SlidingRule::none, true},
    {"mistral", "MistralForCausalLM", 0, kNone, kNone, kNone, false, SlidingRule::every_layer, true},
    {"qwen2", "Qwen2ForCausalLM", 0, BiasRule::always, kNone, kNone, false, kByLayer, false},
    {"qwen3", "Qwen3ForCausalLM", 128, kKey, kKey, kNone, true, kByLayer, false},
};
}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string known_families() {
  std::string names;
  for (const Family& family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  return names;
}

}  // namespace trl::model
