#include "config/generation/generation_kwargs.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kCount = "generate.num_return_sequences";

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
    Entry{"n", "num_return_sequences"},
    Entry{"no_repeat_ngram_size", ""},
    Entry{"num_return_sequences", ""},
    Entry{"presence_penalty", ""},
    Entry{"repetition_penalty", ""},
    Entry{"seed", ""},
    Entry{"speculative_config", ""},
    Entry{"stop", ""},
    Entry{"stop_strings", "stop"},
    Entry{"stop_token_ids", ""},
    Entry{"suppress_tokens", ""},
    Entry{"temperature", ""},
    Entry{"top_k", ""},
    Entry{"top_p", ""},
    Entry{"typical_p", ""},
};

struct FixedEntry {
  std::string_view name;
  std::string_view only;  // the value that says what holds anyway; empty: any, as none changes a completion
  std::string_view why;   // no other value
};

constexpr std::string_view kNoBeams = "this build does not search with beams",
                           kNoOutput = "completions have no such output",
                           kNoSpecial = "texts have no special tokens";

constexpr std::array kFixedEntries = {
    FixedEntry{"best_of", "1", "this build does not choose among completions"},
    FixedEntry{"bos_token_id", "", ""},
    FixedEntry{"detokenize", "true", "completions have their text"},
    FixedEntry{"diversity_penalty", "0", kNoBeams},
    FixedEntry{"early_stopping", "", ""},
    FixedEntry{"guidance_scale", "1", "this build does not guide"},
    FixedEntry{"include_stop_str_in_output", "false", "a text ends before the one that stops it"},
    FixedEntry{"length_penalty", "", ""},
    FixedEntry{"num_beam_groups", "1", kNoBeams},
    FixedEntry{"num_beams", "1", kNoBeams},
    FixedEntry{"output_attentions", "false", kNoOutput},
    FixedEntry{"output_hidden_states", "false", kNoOutput},
    FixedEntry{"output_logits", "false", kNoOutput},
    FixedEntry{"output_scores", "false", "logprobs gives log-probabilities"},
    FixedEntry{"pad_token_id", "", ""},
    FixedEntry{"remove_invalid_values", "false", "a completion ends where the output is not a number"},
    FixedEntry{"return_dict_in_generate", "", ""},
    FixedEntry{"skip_special_tokens", "true", kNoSpecial},
    FixedEntry{"spaces_between_special_tokens", "", ""},
    FixedEntry{"synced_gpus", "", ""},
    FixedEntry{"use_cache", "", ""},
};

constexpr std::string_view kStructures = "structured_outputs";

// The forms of structured_outputs, by vLLM's names.
constexpr std::array kStructureForms = {Entry{"regex", "generate.regex"}, Entry{"choice", "generate.choice"},
                                        Entry{"json", "generate.json_schema"},
                                        Entry{"json_object", "generate.json_schema"}};

[[noreturn]] void refuse_entry(std::string_view key, std::string_view name) {
  std::vector<std::string_view> names = {"do_sample"};
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  for (const FixedEntry& entry : kFixedEntries) names.push_back(entry.name);
  names.push_back(kStructures);
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

[[noreturn]] void refuse_value(const GenerationKwargs& from, std::string_view name, const base::Json& value,
                               std::string_view why, std::string_view only) {
  fail_key(from.key, "{}: {}: {} is refused: {}; give {}", from.key, name, shown(as_text(value)), why, only);
}

// Checks an entry that may only say what holds anyway.
void check_fixed(const GenerationKwargs& from, const FixedEntry& entry, const base::Json& value) {
  const std::string text = as_text(value);
  const std::optional<double> number = base::parse_double(text);
  if (entry.only.empty() || text == entry.only || (number && number == base::parse_double(entry.only)))
    return;
  refuse_value(from, entry.name, value, entry.why, entry.only);
}

// Takes one of vLLM's structured outputs.
void take_structures_entry(Config& out, std::string_view key, const base::Json& value) {
  const auto refuse = [&](std::string_view what) {
    fail_key(key, "{}: {}: {}; give a mapping with one of regex, choice, json, json_object", key, kStructures,
             what);
  };
  if (!value.is_object()) refuse(shown(as_text(value)) + " is not a mapping");
  std::string_view taken;
  for (const auto& [name, form] : value.items()) {
    if (form.is_null() || form == false) continue;
    const auto entry = std::ranges::find(kStructureForms, name, &Entry::name);
    if (entry == kStructureForms.end()) refuse(shown(name) + " is not supported");
    if (!taken.empty()) refuse(fmt::format("{} and {} are not kept together", taken, name));
    taken = entry->name;
    const bool any = taken == "json_object";
    if (any && form != true) refuse("json_object is true or false");
    const Option& option = *find_option(entry->option);
    const std::string label = fmt::format("{}: {}: {}", key, kStructures, name);
    try {
      out.set(option.name, canonical_value(option, label, any ? R"({"type": "object"})" : as_text(form)));
    } catch (const Error& error) {
      throw error.with(error.message(), key);
    }
  }
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
    if (name == "do_sample") continue;
    if (name == kStructures) {
      if (!value.is_null()) take_structures_entry(out, from.key, value);
      continue;
    }
    const auto fixed = std::ranges::find(kFixedEntries, name, &FixedEntry::name);
    if (fixed != kFixedEntries.end()) {
      if (!value.is_null()) check_fixed(from, *fixed, value);
      continue;
    }
    const auto entry = std::ranges::find(kEntries, name, &Entry::name);
    if (entry == kEntries.end()) refuse_entry(from.key, name);
    if (value.is_null()) continue;
    const std::string key = fmt::format("generate.{}", entry->option.empty() ? entry->name : entry->option);
    if (key == kCount && !from.why_count.empty()) {
      if (as_text(value) != out.get(key)) refuse_value(from, name, value, from.why_count, out.get(key));
      continue;
    }
    const Option& option = *find_option(key);
    const auto [other, is_new] = given.try_emplace(option.name, entry->name);
    const std::string label = fmt::format("{}: {}", from.key, name);
    try {
      const std::string text = canonical_value(option, label, value_for(option, value));
      if (!is_new && out.get(key) != text)
        fail_key(label, "{} contradicts {}: give one of them", label, other->second);
      out.set(key, text);
    } catch (const Error& error) {
      throw error.with(error.message(), from.key);
    }
  }
  take_do_sample(out, from.key, entries);
}

Error named_as_entry(const Error& error, const Config& given, std::string_view key) {
  constexpr std::string_view kGroup = "generate.";
  std::string_view option = error.key(), rest = error.message();
  if (option.empty() || !given.has(key)) return error;
  if (rest.starts_with(option)) rest.remove_prefix(option.size());
  if (option.starts_with(kGroup)) option.remove_prefix(kGroup.size());
  const base::Json entries = base::Json::parse(given.get(key));
  const auto named = [&](std::string_view entry) {
    return error.with(fmt::format("{}: {}{}", key, entry, rest), key);
  };
  for (const Entry& entry : kEntries)
    if ((entry.option.empty() ? entry.name : entry.option) == option && find_entry(entries, entry.name))
      return named(entry.name);
  for (const Entry& form : kStructureForms)
    if (form.option.substr(kGroup.size()) == option && find_entry(entries, kStructures))
      return named(kStructures);
  return error;
}

bool has_structured_outputs(const Config& config, std::string_view key) {
  const base::Json entries = base::Json::parse(config.get(key));
  return find_entry(entries, kStructures) != nullptr;
}

Config with_generation_kwargs(const Config& config) {
  std::string first, all;
  for (const auto& [name, value] : config.values()) {
    const std::string here = "generate." + name;
    if (is_of(*find_option(name), config.method().name) || find_option(here) == nullptr) continue;
    const std::string place = config.origin(name);
    all += fmt::format("{}{}{}: it has no effect on generation; the key for it is {}",
                       all.empty() ? "" : "; ", place == "set" ? "" : place + ": ", name, here);
    if (first.empty()) first = name;
  }
  if (!all.empty()) throw Error(Status::invalid_config, all, first);
  Config out = config;
  apply_generation_kwargs(out, {"generate.generation_kwargs"});
  return out;
}

}  // namespace trl::config
