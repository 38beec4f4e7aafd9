#include "reward/math/clean.h"

#include <algorithm>
#include <array>

#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

struct Replacement {
  std::string_view name, text;
};

constexpr std::array kCommands = {
    Replacement{"cfrac", "\\frac"},      Replacement{"dfrac", "\\frac"},  Replacement{"displaystyle", ""},
    Replacement{"ldots", " "},           Replacement{"mathbf", "\\text"}, Replacement{"mathit", "\\text"},
    Replacement{"mathrm", "\\text"},     Replacement{"textbf", "\\text"}, Replacement{"textit", "\\text"},
    Replacement{"textnormal", "\\text"}, Replacement{"textrm", "\\text"}, Replacement{"tfrac", "\\frac"},
};

constexpr std::array kWords = {
    Replacement{"and", ","},          Replacement{"inf", "\\infty"}, Replacement{"infinity", "\\infty"},
    Replacement{"or", ","},           Replacement{"pct", "\\%"},     Replacement{"percent", "\\%"},
    Replacement{"percentage", "\\%"},
};

constexpr std::string_view kDelimiters = "()[]{}|";

class Cleaner {
 public:
  Cleaner(std::string_view latex, Dialect dialect)
      : in_(latex), dialect_(dialect), has_rows_(latex.find("matrix") != kNone) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  bool starts(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void step() {
    const char c = in_[at_];
    if (c == '\\') return backslash();
    if (is_letter(c)) return word();
    if (c == '{' && comma_in_braces()) return;
    ++at_;
    if (c == '$' || c == '"' || c == '\'') return;
    out_ += is_space(c) ? ' ' : c;
  }

  void backslash() {
    const char next = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (is_letter(next)) return command();
    if (next == '\\') {  // a line end, or a command with a doubled backslash
      const bool doubled = !has_rows_ && at_ + 2 < in_.size() && is_letter(in_[at_ + 2]);
      if (!doubled) out_ += "\\\\";
      at_ += doubled ? 1 : 2;
      return;
    }
    at_ += next == '\0' ? 1 : 2;
    if (next == '$' || next == '!') return;
    if (is_space(next)) {
      out_ += ' ';
      return;
    }
    out_ += '\\';
    if (next != '\0') out_ += next;
  }

  void command() {
    const std::string_view name = letters_at(in_, at_ + 1);
    const size_t end = at_ + 1 + name.size();
    if (name == "left" || name == "right") {
      const std::string_view rest = in_.substr(end);
      const bool brace = rest.starts_with("\\{") || rest.starts_with("\\}");
      const bool word = rest.size() > 1 && rest[0] == '\\' && is_letter(rest[1]);
      if (brace || word || (!rest.empty() && kDelimiters.find(rest[0]) != kNone)) {
        at_ = end;
        return;
      }
    }
    const auto found = std::ranges::find(kCommands, name, &Replacement::name);
    const std::string_view shown = found != kCommands.end() ? found->text : in_.substr(at_, end - at_);
    at_ = end;
    if (shown == "\\text" && text_of_one_word()) return;
    if (name == "ldots") remove_comma();
    out_ += shown;
  }

  // Takes the braces of \text{ and }, \text{percent} and \text{ }.
  bool text_of_one_word() {
    size_t from = at_;
    while (from < in_.size() && is_space(in_[from])) ++from;
    if (from >= in_.size() || in_[from] != '{') return false;
    const size_t end = in_.find('}', from);
    if (end == kNone) return false;
    const std::string_view inner = trimmed(in_.substr(from + 1, end - from - 1));
    const auto found = std::ranges::find(kWords, inner, &Replacement::name);
    if (!inner.empty() && found == kWords.end()) return false;
    at_ = end + 1;
    if (!inner.empty()) put_word(found->text);
    return true;
  }

  void word() {
    const std::string_view name = letters_at(in_, at_);
    const auto found = std::ranges::find(kWords, name, &Replacement::name);
    at_ += name.size();
    if (found != kWords.end())
      put_word(found->text);
    else if (name == "sqrt" && (out_.ends_with(' ') || dialect_ == Dialect::lenient))
      out_ += "\\sqrt";
    else
      out_ += name;
  }

  void put_word(std::string_view text) {
    if (text == ",") remove_comma();
    out_ += text;
  }

  void remove_comma() {
    while (out_.ends_with(' ')) out_.pop_back();
    if (out_.ends_with(',')) out_.pop_back();
  }

  bool comma_in_braces() {
    const size_t end = in_.find('}', at_);
    if (end == kNone || trimmed(in_.substr(at_ + 1, end - at_ - 1)) != ",") return false;
    out_ += ',';
    at_ = end + 1;
    return true;
  }

  std::string_view in_;
  Dialect dialect_;
  bool has_rows_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string clean_latex(std::string_view latex, Dialect dialect) {
  const std::string clean = Cleaner(latex, dialect).run();
  return std::string(trimmed(without_units(trimmed(clean))));
}

}  // namespace trl::reward::math
