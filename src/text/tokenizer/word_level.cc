#include "text/tokenizer/word_level.h"

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

WordLevel::WordLevel(Vocabulary vocabulary, std::string unknown, std::string where)
    : vocabulary_(std::move(vocabulary)), unknown_(std::move(unknown)), where_(std::move(where)) {}

void WordLevel::tokenize(const Piece& word, ModelSpace&, Tokens& out) const {
  int32_t id = vocabulary_.find(word.text);
  if (id < 0) id = vocabulary_.find(unknown_);
  if (id < 0)
    fail(Status::format, "{}: the word '{}' is not a token, and unk_token '{}' is not in the vocabulary",
         where_, base::one_line(word.text.substr(0, 200)), unknown_);
  out.ids.push_back(id);
  if (out.tracked) out.spans.push_back({word.spans[0].begin, word.spans[word.text.size() - 1].end});
}

}  // namespace trl::text
