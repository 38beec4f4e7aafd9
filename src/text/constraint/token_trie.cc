#include "text/constraint/token_trie.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "text/constraint/automaton.h"

namespace trl::text {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocabulary_(static_cast<size_t>(tokenizer.vocab_size())) {
  std::vector<std::string> inside(vocabulary_), first(vocabulary_);
  const std::map<int32_t, AddedToken> added = tokenizer.added_tokens();
  for (size_t i = 0; i < vocabulary_; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (added.contains(id)) continue;
    inside[i] = tokenizer.decode_bytes({&id, 1}, true, true);
    first[i] = tokenizer.decode_bytes({&id, 1}, true, false);
  }
  forms_.push_back(make(inside));
  if (first != inside) forms_.push_back(make(first));
}

// Makes nodes of the ids, which get in the order of their texts.
TokenTrie::Nodes TokenTrie::nodes_of(const std::vector<std::string>& texts, std::vector<int32_t> ids) {
  const auto text = [&](int32_t id) -> const std::string& { return texts[static_cast<size_t>(id)]; };
  std::ranges::sort(ids, [&](int32_t a, int32_t b) {
    const int compared = text(a).compare(text(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  Nodes nodes;
  std::vector<uint32_t> open;  // nodes from the root to the last one
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back())
      nodes.after[open.back()] = static_cast<uint32_t>(nodes.byte.size());
  };
  const std::string* last = nullptr;
  for (const int32_t id : ids) {
    const std::string& here = text(id);
    const size_t common =
        last == nullptr ? 0 : static_cast<size_t>(std::ranges::mismatch(*last, here).in1 - last->begin());
    close(common);
    for (size_t depth = common; depth < here.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(nodes.byte.size()));
      nodes.byte.push_back(static_cast<uint8_t>(here[depth]));
      nodes.depth.push_back(static_cast<uint16_t>(depth + 1));
      nodes.after.push_back(0);
      nodes.first.push_back(static_cast<uint32_t>(nodes.ids.size()));
    }
    nodes.ids.push_back(id);
    nodes.deepest = std::max(nodes.deepest, here.size());
    last = &here;
  }
  close(0);
  nodes.first.push_back(static_cast<uint32_t>(nodes.ids.size()));
  return nodes;
}

TokenTrie::Form TokenTrie::make(const std::vector<std::string>& texts) {
  Form form;
  std::vector<int32_t> ids[2];
  for (size_t i = 0; i < texts.size(); ++i) {
    form.begin.push_back(static_cast<uint32_t>(form.text.size()));
    form.text += texts[i];
    const size_t size = texts[i].size();
    if (size > 0 && size <= std::numeric_limits<uint16_t>::max())
      ids[size > Automaton::kAlikeBytes ? 1 : 0].push_back(static_cast<int32_t>(i));
  }
  form.begin.push_back(static_cast<uint32_t>(form.text.size()));
  for (const bool longer : {false, true})
    form.nodes[longer ? 1 : 0] = nodes_of(texts, std::move(ids[longer ? 1 : 0]));
  return form;
}

size_t TokenTrie::deepest() const {
  size_t deepest = 0;
  for (const Form& form : forms_)
    for (const Nodes& nodes : form.nodes) deepest = std::max(deepest, nodes.deepest);
  return deepest;
}

std::string_view TokenTrie::bytes(int32_t id, bool first) const {
  const auto i = static_cast<size_t>(id);
  if (id < 0 || i >= vocabulary_) return {};
  const Form& of = form(first);
  return std::string_view(of.text).substr(of.begin[i], of.begin[i + 1] - of.begin[i]);
}

}  // namespace trl::text
