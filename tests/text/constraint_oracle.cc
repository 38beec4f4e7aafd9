// usage: constraint_oracle DIR < PATTERNS
// Prints a list of the texts of all ids in hexadecimal, empty for those that no constraint allows; then for
// each line of PATTERNS {"allowed": [ids that may come first], "whole": [those whose text is a whole match]}.
//
// usage: constraint_oracle < LINES
// Prints for each line {"pattern", "part" or "schema": ..., "texts": [...], "samples": N} either {"refused":
// why} or {"matches": [whether each text matches], "samples": [N texts that match]}.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <random>

#include "base/error.h"
#include "base/json/json.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/schema.h"
#include "text/constraint/token_constraint.h"

namespace {

using namespace trl;

void print_allowed(const char* folder) {
  const auto trie =
      std::make_shared<const text::TokenTrie>(*text::Tokenizer::from_files(std::string(folder)));
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
}

text::PatternTree tree_of(const base::Json& line) {
  if (line.contains("schema")) return text::parse_schema(line.at("schema"), "schema");
  if (line.contains("part")) return text::parse_part_pattern(line.at("part").get<std::string>(), "part");
  return text::parse_pattern(line.at("pattern").get<std::string>(), "pattern");
}

bool matches(text::LazyDfa& dfa, const std::string& text) {
  uint32_t state = dfa.start(false)->number;
  for (const char byte : text) {
    state = dfa.next(state, static_cast<uint8_t>(byte));
    if (state == text::LazyDfa::kDead) return false;
  }
  return dfa.at(state)->matches;
}

// Some text that matches; longer ones soon end wherever they may. nullopt: it did not end.
std::optional<std::string> sample(text::LazyDfa& dfa, std::mt19937& random) {
  std::string text;
  uint32_t state = dfa.start(false)->number;
  for (size_t length = 0; length < 4000; ++length) {
    if (dfa.at(state)->matches && random() % 100 < std::min<size_t>(20 + length, 95)) return text;
    std::vector<uint8_t> bytes, marks;
    for (int byte = 0; byte < 256; ++byte) {
      if (dfa.next(state, static_cast<uint8_t>(byte)) == text::LazyDfa::kDead) continue;
      bytes.push_back(static_cast<uint8_t>(byte));
      if (std::string_view("]}\"").find(static_cast<char>(byte)) != std::string_view::npos)
        marks.push_back(bytes.back());
    }
    if (bytes.empty()) return dfa.at(state)->matches ? std::optional(text) : std::nullopt;
    const bool closes = !marks.empty() && random() % 40 < length;
    const std::vector<uint8_t>& from = closes ? marks : bytes;
    const uint8_t byte = from[random() % from.size()];
    text += static_cast<char>(byte);
    state = dfa.next(state, byte);
  }
  return std::nullopt;
}

void print_texts() {
  std::mt19937 random(7);
  for (std::string text; std::getline(std::cin, text);) {
    base::Json out = base::Json::object();
    try {
      const base::Json line = base::parse_json(text, "line");
      text::LazyDfa dfa(text::Automaton(tree_of(line), "key"));
      base::Json all = base::Json::array(), samples = base::Json::array();
      for (const base::Json& one : line.at("texts")) all.push_back(matches(dfa, one.get<std::string>()));
      for (int64_t i = line.at("samples").get<int64_t>(); i > 0; --i)
        if (const auto one = sample(dfa, random)) samples.push_back(*one);
      out.emplace("matches", std::move(all));
      out.emplace("samples", std::move(samples));
    } catch (const Error& error) {
      out.emplace("refused", base::Json(error.message()));
    }
    std::puts(out.dump().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2) return 2;
  argc == 2 ? print_allowed(argv[1]) : print_texts();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
