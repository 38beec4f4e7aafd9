#include "config/generation_kwargs.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text/nearest.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

struct Entry {
  std::string_view name;
  std::string_view option;  // of the group generate; empty: name
};

// The options by their names in transformers' GenerationConfig and vLLM's SamplingParams.
constexpr std::array kEntries = {
    Entry{"allowed_token_ids", ""},
    Entry{"bad_words", ""},
    Entry{"bad_words_ids", ""},
    Entry{"eos_token_id", ""},
    Entry{"epsilon_cutoff", ""},
    Entry{"eta_cutoff", ""},
    Entry{"frequency_penalty", ""},
    Entry{"ignore_eos", ""},
    Entry{"logit_bias", ""},
    Entry{"logprobs", ""},
    Entry{"max_new_tokens", ""},
    Entry{"max_tokens", "max_new_tokens"},
    Entry{"min_new_tokens", ""},
    Entry{"min_p", ""},
    Entry{"min_tokens", "min_new_tokens"},
    Entry{"no_repeat_ngram_size", ""},
    Entry{"presence_penalty", ""},
    Entry{"repetition_penalty", ""},
    Entry{"seed", ""},
    Entry{"stop", ""},
    Entry{"stop_strings", "stop"},
    Entry{"stop_token_ids", ""},
    Entry{"suppress_tokens", ""},
    Entry{"temperature", ""},
    Entry{"top_k", ""},
    Entry{"top_p", ""},
    Entry{"typical_p", ""},
};

constexpr std::array<std::string_view, 4> kOtherEntries = {"do_sample", "n", "num_beams",
                                                           "num_return_sequences"};

[[noreturn]] void refuse_entry(std::string_view key, std::string_view name) {
  std::vector<std::string_view> names(kOtherEntries.begin(), kOtherEntries.end());
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  std::ranges::sort(names);
  const std::string_view near = base::nearest(name, names);
  fail_key(key, "{}: {} is not an entry of this build{}; accepted: {}", key, shown(name),
           near.empty() ? std::string() : fmt::format("; did you mean {}?", near), base::join(names));
}

// Returns the value as the option takes it: a single text or id as a list of it, and vLLM's -1 for all.
std::string value_for(const Option& option, const base::Json& value) {
  if (option.type == OptionType::list && !value.is_array()) return base::Json::array({value}).dump();
  if (option.name == "generate.top_k" && value == -1) return "0";
  return as_text(value);
}

const base::Json* find_entry(const base::Json& entries, std::string_view name) {
  const auto found = entries.find(name);
  return found == entries.end() || found->is_null() ? nullptr : &*found;
}

// Checks entries that may only say what holds anyway.
void check_fixed(const Config& config, const GenerationKwargs& from, const base::Json& entries) {
  const auto check = [&](std::string_view name, const std::string& only, std::string_view why) {
    const base::Json* const entry = find_entry(entries, name);
    if (entry == nullptr || as_text(*entry) == only) return;
    fail_key(from.key, "{}: {}: {} is refused: {}; give {}", from.key, name, shown(as_text(*entry)), why,
             only);
  };
  check("num_beams", "1", "this build does not search with beams");
  for (const std::string_view name : {"n", "num_return_sequences"})
    check(name, config.get("generate.num_return_sequences"), from.why_count);
}

// Without a temperature, transformers samples at 1.
void take_do_sample(Config& config, std::string_view key, const base::Json& entries) {
  constexpr std::string_view kTemperature = "generate.temperature";
  const base::Json* const entry = find_entry(entries, "do_sample");
  if (entry == nullptr) return;
  const std::optional<bool> samples = parse_bool(as_text(*entry));
  if (!samples)
    fail_key(key, "{}: do_sample: {} is not accepted; give true or false", key, shown(as_text(*entry)));
  if (!*samples) config.set(kTemperature, "0");
  const bool zero = config.get_double(kTemperature) == 0 && find_entry(entries, "temperature") == nullptr;
  if (*samples && zero) config.set(kTemperature, "1");
}

}  // namespace

void apply_generation_kwargs(Config& out, const GenerationKwargs& from) {
  const base::Json entries = base::Json::parse(out.get(from.key));
  if (entries.is_null()) return;
  std::map<std::string_view, std::string_view> given;  // name by option
  for (const auto& [name, value] : entries.items()) {
    if (value.is_null() || std::ranges::find(kOtherEntries, name) != kOtherEntries.end()) continue;
    const auto entry = std::ranges::find(kEntries, name, &Entry::name);
    if (entry == kEntries.end()) refuse_entry(from.key, name);
    const std::string key = fmt::format("generate.{}", entry->option.empty() ? entry->name : entry->option);
    const Option& option = *find_option(key);
    const auto [other, is_new] = given.try_emplace(option.name, entry->name);
    const std::string label = fmt::format("{}: {}", from.key, name);
    try {
      const std::string text = canonical_value(option, label, value_for(option, value));
      if (!is_new && out.get(key) != text)
        fail_key(label, "{} contradicts {}: give one of them", label, other->second);
      out.set(key, text);
    } catch (const Error& error) {
      throw Error(error.status(), error.message(), std::string(from.key));
    }
  }
  check_fixed(out, from, entries);
  take_do_sample(out, from.key, entries);
}

Config with_generation_kwargs(const Config& config) {
  for (const auto& [name, value] : config.values()) {
    const std::string here = "generate." + name;
    if (is_of(*find_option(name), config.method().name) || find_option(here) == nullptr) continue;
    fail_key(name, "{}: it has no effect on generation; the key for it is {}", name, here);
  }
  Config out = config;
  apply_generation_kwargs(
      out, {"generate.generation_kwargs", "generate.num_return_sequences is the number of completions"});
  return out;
}

}  // namespace trl::config
