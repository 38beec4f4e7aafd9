// usage: constraint_oracle DIR < PATTERNS
// Prints a list of the texts of all ids in hexadecimal, empty for those that no constraint allows; then for
// each line of PATTERNS {"allowed": [ids that may come first], "whole": [those whose text is a whole match]}.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "base/json/json.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"

int main(int argc, char** argv) try {
  using namespace trl;
  if (argc != 2) return 2;
  const auto trie =
      std::make_shared<const text::TokenTrie>(*text::Tokenizer::from_files(std::string(argv[1])));
  const auto ids = static_cast<int32_t>(trie->vocabulary());
  base::Json texts = base::Json::array();
  for (int32_t id = 0; id < ids; ++id) {
    std::string hex;
    for (const char byte : trie->bytes(id, true))
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    texts.push_back(hex);
  }
  std::puts(texts.dump().c_str());
  for (std::string pattern; std::getline(std::cin, pattern);) {
    const text::PatternTree tree = text::parse_pattern(pattern, "pattern");
    text::TokenConstraint constraint(tree, "pattern", trie);
    text::LazyDfa dfa(text::Automaton(tree, "pattern"));
    std::string_view why;
    const auto allowed = constraint.allowed(constraint.start(), why);
    base::Json all = base::Json::array(), whole = base::Json::array();
    for (int32_t id = 0; id < ids; ++id) {
      if (!allowed->contains(id)) continue;
      all.push_back(id);
      uint32_t state = dfa.start(false)->number;
      for (const char byte : trie->bytes(id, true)) state = dfa.next(state, static_cast<uint8_t>(byte));
      if (dfa.at(state)->matches) whole.push_back(id);
    }
    base::Json line = base::Json::object();
    line["allowed"] = all;
    line["whole"] = whole;
    std::puts(line.dump().c_str());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
