// Derives the merges of a SentencePiece BPE vocabulary, which has scores instead of merges.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trl::text {

// Returns a pair for every way to make a token of two, the highest score first, as transformers orders them:
// among equal scores the longer left part first, then the longer right one. scores: one for each token. The
// parts borrow from tokens.
std::vector<std::pair<std::string_view, std::string_view>> merges_of_scores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores);

}  // namespace trl::text
