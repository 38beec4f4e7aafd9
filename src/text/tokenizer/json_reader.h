// Reads tokenizer.json and its neighbours. Vocabulary and merges are read straight into plain lists, since a
// tree of some 100 000 nodes (and its linear look-up of keys) is slow; nesting is limited, so that no walk
// over it can exhaust the stack.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::text {

using Merges = std::vector<std::pair<std::string, std::string>>;

struct TokenizerJson {
  base::Json rest;                                          // everything but the following
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // model.vocab, an object of tokens and ids
  std::vector<std::pair<std::string, double>> pieces;       // model.vocab, a list of tokens and scores
  Merges merges;                                            // model.merges
  bool has_merges = false;                                  // true also for an empty list
};

// Throws Error(format): "<origin>:<line>:<column>: ..." for text that is not JSON, else naming origin and
// key.
TokenizerJson read_tokenizer_json(std::string_view text, const std::string& origin);
// Returns the type of model of a file that does not name it.
const char* model_type(const TokenizerJson& json);
base::Json read_small_json(std::string_view text, const std::string& origin);

}  // namespace trl::text
