// Some classes of transformers 5 are built anew from vocabulary and merges, with steps of their own;
// AutoTokenizer takes the class that tokenizer_config.json names, but for the model types below.
#include "text/tokenizer/prefix_space.h"

#include "base/error.h"

namespace trl::text {

namespace {
using base::Json;

std::string class_of(std::string name, const std::string& model_type) {
  if (model_type == "mistral") return {};  // tokenizer.json as it stands
  if (model_type == "qwen2" || (model_type == "qwen3" && name.empty())) return "Qwen2Tokenizer";
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

// As the converters of SentencePiece's models write it.
bool prepends(const Json& tokenizer) {
  const auto says = [&](const char* key, const char* word) {
    const auto found = tokenizer.find(key);
    return found != tokenizer.end() && found->dump().find(word) != std::string::npos;
  };
  return says("normalizer", "\"Prepend\"") ||
         (says("pre_tokenizer", "\"Metaspace\"") && !says("pre_tokenizer", "\"never\""));
}
}  // namespace

void apply_prefix_space(Json& tokenizer, const Settings& settings, const std::string& model_type,
                        const std::string& where) {
  const std::string name = class_of(settings.tokenizer_class, model_type);
  if (name == "LlamaTokenizer" && settings.add_prefix_space == false && prepends(tokenizer))
    fail(Status::unsupported,
         "{}: add_prefix_space: false with the class LlamaTokenizer, where tokenizer.json puts a space "
         "before the text and "
         "transformers none; take it out of tokenizer.json, or the key out of here",
         where);
  if (!settings.add_prefix_space || (name != "Qwen2Tokenizer" && name != "GPT2Tokenizer")) return;
  const auto found = tokenizer.find("pre_tokenizer");
  if (found == tokenizer.end() || !found->is_object()) return;
  const auto is = [](const Json& step, const char* type) {
    return step.is_object() && step.contains("type") && step["type"] == type;
  };
  const bool sequence = is(*found, "Sequence") && found->contains("pretokenizers");
  if (sequence && name == "GPT2Tokenizer" && *settings.add_prefix_space)
    fail(Status::unsupported,
         "{}: add_prefix_space: true with the class GPT2Tokenizer, for which transformers leaves out the "
         "other steps of "
         "tokenizer.json's pre_tokenizer; give false, or set add_prefix_space in tokenizer.json",
         where);
  const auto set = [&](Json& step) {
    if (is(step, "ByteLevel")) step["add_prefix_space"] = *settings.add_prefix_space;
  };
  set(*found);
  if (sequence) {
    for (Json& step : (*found)["pretokenizers"]) set(step);
  }
}

}  // namespace trl::text
