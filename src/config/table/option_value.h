// Converts text to the canonical text of an option's value, and says whether this build supports it.
// Canonical: true/false, shortest decimal, JSON list or object, the text itself, or null; reading canonical
// text gives the same text again.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "config/config.h"
#include "config/table/option.h"

namespace trl::config {

std::optional<bool> parse_bool(std::string_view text);  // true false yes no on off y n t f 1 0, in any case

// Returns the canonical text of a value. key: the name as written, and trainer, for messages. A value is
// accepted if any trainer accepts it. Throws Error(invalid_config): key, value, accepted values.
std::string canonical_value(const Option& option, std::string_view key, std::string_view text,
                            std::string_view trainer = {});

// Throws Error(invalid_config) with the reason if this build refuses the canonical value. Otherwise returns
// the warning to give, or empty.
std::string check_support(const Option& option, std::string_view key, const std::string& value);

// Returns whether the value is a list of words or numbers to a trainer.
bool is_list_somewhere(const Option& option);

// Returns whether the trainer accepts a canonical value, or an element of its list. Of texts, lists and maps
// only what a trainer accepts instead of the row's words counts: the others have a reader that checks them.
bool trainer_accepts(const Option& option, std::string_view trainer, std::string_view value);

// A range of the option table: "> 0", ">= 0", "[0, 1)", "bytes >= 0", ...
struct Range {
  double low = -HUGE_VAL, high = HUGE_VAL;
  bool low_in = true, high_in = true;
  bool bytes = false;  // of a size, which may have a unit

  bool holds(double value) const {
    return (low_in ? value >= low : value > low) && (high_in ? value <= high : value < high);
  }
};
Range parse_range(std::string_view range);
inline bool in_range(std::string_view range, double value) { return parse_range(range).holds(value); }

// Returns the words that the option's value, or an element of its list, may be, without those that this build
// refuses; empty: the option is neither a choice nor a list of words.
std::vector<std::string_view> words_of(const Option& option, std::string_view trainer);

// Whether "" is a text of the option; otherwise it is an error, although null is a value.
inline bool may_be_empty(const Option& option) { return option.name != "output_dir"; }
// Whether elements of a list may be null.
inline bool takes_null_items(const Option& option) { return option.name == "dataset_configs"; }

inline constexpr std::string_view kCalls = "NAME(argument=value)";  // a list of such words

// Returns a canonical value in its own type.
base::Json typed_value(const Option& option, const std::string& value);

std::string in_small_letters(std::string_view text);  // A to Z only
// Removes underscores between digits, because YAML 1.1 and Python allow 1_000.
std::string without_underscores(std::string_view text);
std::string shown(std::string_view value);     // for messages: one line, cut when long
std::string as_text(const base::Json& value);  // a string unchanged, anything else as JSON

// Returns the names that others have for an option (options/other_names.def), with commas between; empty:
// none. They are not accepted, because a name's meaning differs between those tools. An error answers each
// with the key.
std::string_view other_names(const Option& option);

// Returns the key that has this name elsewhere, or in the flag of a command ("temperature":
// generate.temperature); empty: none, or the trainer does not have it. trainer: empty: any.
std::string_view key_called(std::string_view name, std::string_view trainer);

// Returns "'lr': unknown key; the key for it is learning_rate" for a key that is not in the table. trainer:
// the suggestion is one of its options; empty: an option of any trainer.
std::string unknown_key(std::string_view key, std::string_view trainer);

// Says what became of a value that other releases of TRL, or LLaMA-Factory, accept for a key and that has
// another meaning today: "it became a trainer of its own: ..."; empty: the value is not known.
std::string_view gone_value(std::string_view key, std::string_view value);

// Returns the value of an enum whose members are the words that the table accepts, in the table's order.
template <class Enum>
Enum word_of(const Config& config, std::string_view key) {
  const std::vector<std::string_view> words =
      split_words(accepted_of(*find_option(key), config.method().name), '|');
  return static_cast<Enum>(std::ranges::find(words, config.get(key)) - words.begin());
}

}  // namespace trl::config
