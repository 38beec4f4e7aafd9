#include "run/complete/speculation.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::run {

namespace {

constexpr std::string_view kKey = "generate.speculative_config", kMethod = "method",
                           kTokens = "num_speculative_tokens", kMost = "prompt_lookup_max",
                           kLeast = "prompt_lookup_min";
constexpr std::array kEntries = {kMethod, kTokens, kMost, kLeast};

using Entries = std::map<std::string, std::string>;

// Returns the entries that have a value.
Entries entries_of(const config::Config& options) {
  Entries entries;
  for (const auto& [name, text] : options.get_pairs(kKey)) {
    if (std::ranges::find(kEntries, name) == kEntries.end()) {
      const std::string_view near = base::nearest(name, kEntries);
      fail_key(kKey, "{}: {} is not an entry of prompt lookup{}; accepted: {}", kKey, config::shown(name),
               near.empty() ? std::string() : fmt::format("; did you mean {}?", near), base::join(kEntries));
    }
    if (text != "null") entries[name] = text;
  }
  return entries;
}

void check_method(const Entries& entries) {
  const auto found = entries.find(std::string(kMethod));
  if (found == entries.end())
    fail_key(kKey, "{}: it needs a method; give method: ngram, which is prompt lookup", kKey);
  if (found->second != "ngram")
    fail_key(kKey, "{}: method: {} is refused: this build has no model that drafts; give ngram", kKey,
             config::shown(found->second));
}

std::optional<int64_t> number_at(const Entries& entries, std::string_view name, int64_t most) {
  const auto found = entries.find(std::string(name));
  if (found == entries.end()) return std::nullopt;
  const std::optional<int64_t> number = base::parse_int64(found->second);
  if (!number || *number < 1 || *number > most)
    fail_key(kKey, "{}: {}: {} is not accepted; give an integer from 1 to {}", kKey, name,
             config::shown(found->second), most);
  return number;
}

}  // namespace

// A single bound is both, as in vLLM.
engine::Speculation speculation_of(const config::Config& options) {
  const Entries entries = entries_of(options);
  engine::Speculation out;
  if (entries.empty()) return out;
  check_method(entries);
  const auto tokens = number_at(entries, kTokens, engine::Speculation::kMostTokens);
  if (!tokens)
    fail_key(kKey, "{}: it needs {}, the most ids to propose at once; give 1 to {}", kKey, kTokens,
             engine::Speculation::kMostTokens);
  const auto most = number_at(entries, kMost, engine::Speculation::kMostNgram),
             least = number_at(entries, kLeast, engine::Speculation::kMostNgram);
  out.tokens = *tokens;
  out.most_ngram = most.value_or(least.value_or(out.most_ngram));
  out.least_ngram = least.value_or(most.value_or(out.least_ngram));
  if (out.least_ngram > out.most_ngram)
    fail_key(kKey, "{}: {}: {} is more than {}, which is {}; give at most that", kKey, kLeast,
             out.least_ngram, kMost, out.most_ngram);
  return out;
}

}  // namespace trl::run
