// One row of the option table (options.def), and the walk over it. Everything else about options is derived
// from here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trl::config {

enum class OptionType : uint8_t { boolean, integer, number, text, choice, list, map };

// The bits of the table of methods: kSft, kDpo, ...
enum class TrainerPlace : uint32_t {
#define TRL_METHOD(bit, ...) bit,
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
  kCount
};
enum Trainers : uint32_t {
#define TRL_METHOD(bit, ...) bit = 1u << static_cast<uint32_t>(TrainerPlace::bit),
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
  kAllTrainers = (1u << static_cast<uint32_t>(TrainerPlace::kCount)) - 1,
};

// The first of these that a value of an option can change, and with it all that follow: where rows, model or
// tokenizer come from, which count by their content; the prepared rows; their batches, order and number; the
// weights that a run ends with; or none of these.
enum class Affects : uint8_t { source, rows, batches, weights, nothing };

struct Option {
  std::string_view name;
  std::string_view section;  // "SFTConfig", "ModelConfig", "ScriptArguments", "runtime", "generate", ...
  std::string_view group;    // its subject, within its section
  std::string_view origin;   // "trl" or "ours"
  OptionType type;
  bool nullable;
  std::string_view default_value;  // canonical text; "null"
  // Legal values, '|' between alternatives: words ("auto"), one range ("> 0", "[0, 1)"; "bytes >= 0": a size
  // in bytes, which may have a unit; its canonical text has none), the keys of a map ("a|b"), or "path" (a
  // map or a list may also be the name of a file). Values of a text option are checked by their reader.
  // Empty: any value of the type.
  std::string_view accepted;
  uint32_t trainers;         // Trainers bits
  std::string_view aliases;  // comma-separated, older names of TRL
  std::string_view doc;
  std::string_view since;  // version of libtrl
  bool works;              // at least one value has the documented effect in this build
  Affects affects;
  // The reason why values other than the default and `no_ops` are refused in this build; empty: they are not.
  std::string_view unsupported;
  // Values (elements of a list; "key" or "key=value" of a map) that are accepted like the default, with
  // neither refusal nor warning; '|' between them.
  std::string_view no_ops;
  // The effect that any other value lacks, although it is accepted; empty: nothing is missing.
  std::string_view warning;
};

inline constexpr std::string_view kBytes = "bytes ";  // begins the range of a size in bytes

std::span<const Option> options();

// The values that an option has in these trainers instead of those in its row. If the default is a list, so
// is the value, of the accepted words or numbers; one alone is a list of it. A value must be accepted by the
// method, whatever its type: `accepted` has words, ranges, or null alone.
struct TrainerValues {
  std::string_view name;
  uint32_t trainers;
  std::string_view default_value;
  std::string_view accepted, doc;  // empty: as in the row
};
std::span<const TrainerValues> trainer_values();
// trainer: "sft", "dpo", ...; any other name: the row's values.
std::string_view default_of(const Option& option, std::string_view trainer);
std::string_view accepted_of(const Option& option, std::string_view trainer);
std::string_view doc_of(const Option& option, std::string_view trainer);
// A choice or a number whose default is a list is one: loss_type of DPO, beta of Online DPO.
OptionType type_of(const Option& option, std::string_view trainer);
bool is_of(const Option& option, std::string_view trainer);  // whether the trainer has the option
const Option* find_option(std::string_view name_or_alias);   // dashes are underscores; null: unknown

// A value as it was written in an earlier release, and its current name. `name` is the name it was written
// with: an alias whose values changed too (group_by_length: true), or a current name (packing_strategy: ffd).
struct OldValue {
  std::string_view name;
  std::string_view written;
  std::string_view meaning;
};
std::span<const OldValue> old_values();

std::string_view type_name(OptionType type);
std::string trainer_names(uint32_t bits, std::string_view separator);  // "sft", "dpo", ...
std::vector<std::string_view> alias_list(const Option& option);
// Returns the choices of an option of type choice, in any trainer; else empty.
std::vector<std::string_view> choices(const Option& option);
// Returns "true or false", "an integer > 0", "one of a, b, c", ...
std::string accepted_text(const Option& option, std::string_view trainer = {});
std::string_view trimmed(std::string_view text);  // without spaces at its ends
// Returns the words trimmed, without empty ones.
std::vector<std::string_view> split_words(std::string_view text, char separator);

bool is_range(std::string_view word);  // "> 0", ">= 0", "[0, 1)", "bytes >= 0": no word

// Returns "a number", "a number > 0" or "an integer in [0, 1]", for a range as the table writes it.
std::string ranged(std::string_view kind, std::string_view range);

std::string underscored(std::string_view key);  // dashes and underscores are the same in a key

}  // namespace trl::config
