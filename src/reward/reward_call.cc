#include "reward/reward_call.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

namespace trl::reward {

namespace {

constexpr int kMaxListDepth = 8;

class CallReader {
 public:
  explicit CallReader(std::string_view spec) : text_(spec) {}

  RewardCall run() {
    RewardCall call{base::one_line(text_), name(), {}};
    if (call.name.empty()) refuse("a name must come first");
    if (!take('(')) {
      if (at_ < text_.size()) refuse("give NAME, NAME(argument=value), or a program as command:LINE");
      return call;
    }
    while (!take(')')) {
      if (!call.arguments.empty() && !take(',')) refuse("a comma or ) is missing");
      if (!call.arguments.empty() && take(')')) break;
      std::string argument = name();
      if (argument.empty() || !take('=')) refuse("each argument needs its name: name=value");
      for (const auto& [other, unused] : call.arguments)
        if (other == argument) refuse(fmt::format("{} is given twice", argument));
      call.arguments.emplace_back(std::move(argument), value(0));
    }
    expect_end();
    return call;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    fail_key("reward_funcs", "reward_funcs: '{}': {} (character {})", base::one_line(text_), reason, at_ + 1);
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect_end() {
    skip_spaces();
    if (at_ < text_.size()) refuse("nothing may follow");
  }

  // Letters, digits, underscores, and the points of a path.
  std::string name() {
    skip_spaces();
    const size_t from = at_;
    const auto in_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '.';
    };
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  base::Json value(int depth) {
    skip_spaces();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '[') return list(depth);
    const size_t from = at_;
    while (at_ < text_.size() && std::string_view(",)] \t\n").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if (word == "true" || word == "True") return true;
    if (word == "false" || word == "False") return false;
    if (word == "null" || word == "None") return nullptr;
    if (const std::optional<int64_t> integer = base::parse_int64(word)) return *integer;
    if (const std::optional<double> number = base::parse_double(word)) return *number;
    at_ = from;
    refuse("a number, a text in quotes or a list must follow");
  }

  base::Json list(int depth) {
    if (depth >= kMaxListDepth) refuse("the list is nested too deeply");
    ++at_;
    base::Json out = base::Json::array();
    while (!take(']')) {
      if (!out.empty() && !take(',')) refuse("a comma or ] is missing");
      out.push_back(value(depth + 1));
    }
    return out;
  }

  base::Json quoted(char quote) {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[++at_];
        out += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      } else {
        out += text_[at_];
      }
    }
    if (at_ >= text_.size()) refuse("a quote is missing");
    ++at_;
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

RewardCall parse_reward_call(std::string_view spec) { return CallReader(spec).run(); }

}  // namespace trl::reward
