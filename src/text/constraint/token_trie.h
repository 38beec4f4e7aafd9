// The texts of all tokens of a vocabulary as a trie, so that tokens which begin alike are looked at together.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// Added tokens, special or not, and those without text are not in it. Immutable: concurrent on const.
class TokenTrie {
 public:
  // Decodes every token twice: a tokenizer may write the first token of a text otherwise (without a space).
  explicit TokenTrie(const Tokenizer& tokenizer);

  size_t vocabulary() const { return vocabulary_; }  // ids are below this
  bool differs_first() const { return forms_.size() > 1; }

  // Nodes in depth-first order.
  struct Nodes {
    std::vector<uint8_t> byte;
    std::vector<uint16_t> depth;  // from 1
    std::vector<uint32_t> after;  // the first node that is not below this one
    std::vector<uint32_t> first;  // of its ids; one more than nodes
    std::vector<int32_t> ids;     // whose text ends at a node
    size_t deepest = 0;
  };
  // Those of texts of at most Automaton::kAlikeBytes, and of longer ones.
  const Nodes& nodes(bool first, bool longer) const { return form(first).nodes[longer ? 1 : 0]; }
  size_t deepest() const;
  // The text of a token; empty: it is not in the trie.
  std::string_view bytes(int32_t id, bool first) const;

 private:
  struct Form {
    Nodes nodes[2];
    std::string text;
    std::vector<uint32_t> begin;  // of each id's text; one more than ids
  };
  const Form& form(bool first) const { return forms_[first ? forms_.size() - 1 : 0]; }
  static Nodes nodes_of(const std::vector<std::string>& texts, std::vector<int32_t> ids);
  static Form make(const std::vector<std::string>& texts);

  size_t vocabulary_;
  std::vector<Form> forms_;  // inside a text, and if that differs at its beginning
};

}  // namespace trl::text
