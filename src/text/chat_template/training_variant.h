// The changes that make a known chat template mark the text that the model itself writes.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

namespace trl::text {

struct Edit {
  std::string_view find;  // every occurrence
  std::string_view replacement;
};

// Collects the loop's body in a variable and, for an assistant's turn, prints the part after its header
// inside a generation block. A template without turn_begin gets only its edits, which contain the blocks.
struct TrainingVariant {
  std::string_view name;        // as TRL names the template
  std::string_view sha256;      // hash of the original
  std::string_view turn_begin;  // the first characters of a turn's text, inside the message loop; occurs once
  std::string_view turn_end;    // the loop's end; occurs once
  std::string_view assistant;   // the condition that holds for an assistant's turn
  // A Jinja string: the end of the header, which the model does not write, or ''.
  std::string_view header;
  std::array<Edit, 5> edits = {};  // applied first
};

inline constexpr std::string_view kMessageIsAssistant = "message['role'] == 'assistant'";

std::span<const TrainingVariant> training_variants_a_to_f();  // by name; Qwen is separate
std::span<const TrainingVariant> training_variants_g_to_l();
std::span<const TrainingVariant> training_variants_m_to_z();
std::span<const TrainingVariant> training_variants_qwen();

const TrainingVariant* find_training_variant(std::string_view name_or_sha256);  // nullptr: none
std::string apply_training_variant(const TrainingVariant& variant, std::string original);

}  // namespace trl::text
