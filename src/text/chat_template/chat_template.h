// Chat templates: Jinja2 as Hugging Face runs it (trim_blocks, lstrip_blocks, loopcontrols, generation),
// sandboxed: no access beyond the given values, a step and an output limit. Immutable after parsing:
// concurrent on const.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::text {

struct RenderOptions {
  bool add_generation_prompt = false;
  bool continue_final_message = false;
  base::Json tools = nullptr;                   // list, or null
  base::Json variables = base::Json::object();  // bos_token, eos_token, enable_thinking ...
  int64_t now = -1;  // Unix seconds for strftime_now, which writes UTC; -1: the clock
};

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generation;  // byte ranges of {% generation %} blocks
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

}  // namespace trl::text
