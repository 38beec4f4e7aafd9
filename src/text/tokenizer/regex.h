// A compiled pattern. Immutable: any thread may search with it, each call with its own MatchSpace.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace trl::text {

// Memory that one thread needs during a search; reused for all searches of one call.
class MatchSpace {
 public:
  MatchSpace();
  ~MatchSpace();
  MatchSpace(const MatchSpace&) = delete;
  MatchSpace& operator=(const MatchSpace&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  // Throws Error(unsupported) or Error(format), naming the pattern.
  explicit Regex(std::string_view oniguruma);
  ~Regex();
  Regex(Regex&&) noexcept;

  struct Match {
    size_t begin;
    size_t end;
  };
  // Finds the first match at or after from. text is valid UTF-8. Throws Error(unsupported) when the search
  // does not end within its limits.
  bool find(std::string_view text, size_t from, Match& match, MatchSpace& space) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace trl::text
