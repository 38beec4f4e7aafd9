// Chat templates: Jinja2 as Hugging Face runs it (trim_blocks, lstrip_blocks, loopcontrols, generation),
// sandboxed: no access beyond the given values, a step and an output limit. Immutable after parsing:
// concurrent on const.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "text/tokenizer/byte_ranges.h"

namespace trl::text {

struct RenderOptions {
  bool add_generation_prompt = false;
  bool continue_final_message = false;
  base::Json tools = nullptr;                   // list, or null
  base::Json variables = base::Json::object();  // bos_token, eos_token, enable_thinking ...
  // Variables that come from the conversation's row and go over the others.
  base::Json row_variables = base::Json::object();
  bool find_given = false;  // Rendered::given is wanted
  int64_t now = -1;         // Unix seconds for strftime_now, which writes UTC; -1: the clock
};

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generation;  // byte ranges of {% generation %} blocks
  // The parts that come from messages, tools and row_variables, not from the template; empty: not wanted.
  ByteRanges given = {};
};

class ChatTemplate {
 public:
  explicit ChatTemplate(std::string_view source);  // throws Error(format): the line and what was expected
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  // Throws Error(format): raise_exception's text, an undefined operation, or a limit that was exceeded.
  Rendered render(const base::Json& messages, const RenderOptions& options) const;
  bool has_generation_markers() const;
  const std::string& source() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

// Returns the version with {% generation %} markers of a known template that lacks them (found by SHA-256 of
// its text), or nullopt.
std::optional<std::string> training_template(std::string_view source);

// The chat templates of a tokenizer, by name, and the choice of one for a call. Concurrent on const.
class ChatTemplates {
 public:
  explicit ChatTemplates(const std::map<std::string, std::string>& sources);  // a single one is "default"
  // Chooses as transformers' get_chat_template does: "tool_use" if tools are given (a list, even an empty
  // one), else "default". Null: no template fits such a call, and why_none() says which exist.
  const ChatTemplate* find(const base::Json& tools) const;
  std::string why_none() const;

 private:
  std::optional<ChatTemplate> default_;
  std::optional<ChatTemplate> tool_use_;
  std::string names_;
};

// Marks the tokens of a rendered chat that the model itself writes, those of its {% generation %} blocks,
// by 1. offsets: each token's byte range in rendered.text; {0, 0} for tokens that are not in it. A block has
// the tokens from the first to the last that hold a part of it; an empty block has none.
std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets);

// A change that makes a known chat template mark the text that the model itself writes.
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
  std::span<const Edit> edits = {};  // applied first
};

const TrainingVariant* find_training_variant(std::string_view name_or_sha256);  // nullptr: none
std::string apply_training_variant(const TrainingVariant& variant, std::string original);

}  // namespace trl::text
