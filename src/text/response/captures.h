// A regular expression that keeps what its groups matched.
#pragma once
#include <memory>
#include <optional>
#include <string_view>

namespace trl::text {

class CapturePattern {
 public:
  // pattern: in PCRE2's syntax; a dot matches line ends, too. Throws Error(format).
  explicit CapturePattern(std::string_view pattern);
  ~CapturePattern();
  CapturePattern(CapturePattern&&) noexcept;

  struct Match {
    size_t begin, end;
    std::string_view first, second;  // of the groups; empty: there is none
  };
  // Finds the first match at or after from. None, too, for a search beyond its limits and for text that is
  // not UTF-8.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace trl::text
