#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"

namespace trl::text {

AddedToken read_added_token(const Field& field) {
  AddedToken token;
  token.content = field.at("content").text();
  if (token.content.size() > kMaxAddedToken)
    fail(Status::format, "{}.content: {} bytes: at most {} are read", field.where(), token.content.size(),
         kMaxAddedToken);
  token.single_word = field.boolean_or("single_word", false);
  token.lstrip = field.boolean_or("lstrip", false);
  token.rstrip = field.boolean_or("rstrip", false);
  token.special = field.boolean_or("special", false);
  token.normalized = field.boolean_or("normalized", !token.special);
  return token;
}

void StringMatcher::add(std::string_view text, int32_t value) {
  if (text.empty()) return;
  first_bytes_[static_cast<unsigned char>(text[0])] = true;
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const auto* edge = edges_.find(static_cast<uint32_t>(node), byte)) {
      node = edge->second;
      continue;
    }
    const auto next = static_cast<int32_t>(values_.size());
    values_.push_back(-1);
    edges_.set(static_cast<uint32_t>(node), byte, {0, next});
    node = next;
  }
  values_[static_cast<size_t>(node)] = value;
}

bool StringMatcher::find(std::string_view text, size_t from, Match& match) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<unsigned char>(text[begin])]) continue;
    bool found = false;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto* edge = edges_.find(node, static_cast<unsigned char>(text[at]));
      if (!edge) break;
      node = static_cast<uint32_t>(edge->second);
      if (values_[node] < 0) continue;
      match = {begin, at + 1, values_[node]};
      found = true;
    }
    if (found) return true;
  }
  return false;
}

int32_t AddedTokens::add(const AddedToken& token, const Vocabulary& vocabulary) {
  int32_t id = this->id(token.content);
  if (id < 0) id = vocabulary.find(token.content);
  if (id < 0) id = std::max(end_, static_cast<int32_t>(vocabulary.size()));
  if (id > kMaxTokenId)
    fail(Status::format, "the token '{}' would have the id {}: {} is the highest", token.content, id,
         kMaxTokenId);
  end_ = std::max(end_, id + 1);
  tokens_[id] = {token, token.content, false};
  ids_[token.content] = id;
  return id;
}

void AddedTokens::build(const Normalizers& normalizers, const std::string& where) {
  constexpr size_t kMostNodes = size_t{1} << 22;  // each takes about 50 bytes
  constexpr size_t kMostBytes = size_t{1} << 25;  // known ones have 1 MiB at most
  size_t bytes = 0;
  plain_ = normalized_ = {};
  for (auto& [id, entry] : tokens_) {
    if (entry.token.normalized) entry.normalized = normalizers.run(entry.token.content);
    StringMatcher& matcher = entry.token.normalized ? normalized_ : plain_;
    matcher.add(entry.normalized, id);
    bytes += entry.normalized.size();
    if (bytes > kMostBytes)
      fail(Status::format, "{}: the added tokens, normalized, have more than {} bytes", where, kMostBytes);
    if (matcher.nodes() > kMostNodes)
      fail(Status::format,
           "{}: the added tokens have more than {} bytes beside those that they begin with alike", where,
           kMostNodes);
    const AddedToken* shown = find(entry.normalized);
    entry.skipped = shown && shown->special;
  }
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second.token;
}
const AddedToken* AddedTokens::find(std::string_view content) const { return find(id(content)); }
int32_t AddedTokens::id(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? -1 : found->second;
}
std::optional<AddedTokens::Decoded> AddedTokens::decoded(int32_t id) const {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return std::nullopt;
  return Decoded{found->second.normalized, found->second.skipped};
}
std::vector<std::string_view> AddedTokens::contents() const {
  std::vector<std::string_view> all;
  for (const auto& [id, entry] : tokens_) all.push_back(entry.token.content);
  std::ranges::sort(all);
  return all;
}

std::map<int32_t, AddedToken> AddedTokens::all() const {
  std::map<int32_t, AddedToken> all;
  for (const auto& [id, entry] : tokens_) all.emplace(id, entry.token);
  return all;
}

namespace {
char32_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return base::next_code_point(text, at);
}
char32_t first_character(std::string_view text) {
  size_t at = 0;
  return base::next_code_point(text, at);
}
// Moves begin left, or end right, over whitespace.
size_t strip_left(std::string_view text, size_t begin, size_t least) {
  while (begin > least) {
    const char32_t c = last_character(text.substr(0, begin));
    if (!is_whitespace(c)) break;
    begin -= c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
  }
  return begin;
}
size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    size_t behind = end;
    if (!is_whitespace(base::next_code_point(text, behind))) break;
    end = behind;
  }
  return end;
}

constexpr std::string_view kKey = "added_tokens", kSpace = " \t\r\n";

size_t skip_space(std::string_view json, size_t at) {
  return std::min(json.find_first_not_of(kSpace, at), json.size());
}

// Returns the position after the string that begins at `at`.
size_t skip_string(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
  return at + 1;
}

// Returns the position after the value that begins at `at`.
size_t skip_value(std::string_view json, size_t at) {
  for (int depth = 0; at < json.size();) {
    const char c = json[at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '"') {
      at = skip_string(json, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

// Returns begin and end of the value of "added_tokens"; none: {npos, npos}.
std::pair<size_t, size_t> find_value(std::string_view json) {
  for (size_t at = json.find('{') + 1; at < json.size();) {
    at = skip_space(json, at);
    if (at >= json.size() || json[at] != '"') break;
    const size_t behind = skip_string(json, at);
    const std::string_view key = json.substr(at + 1, behind - at - 2);
    const size_t begin = skip_space(json, json.find(':', behind) + 1);
    const size_t end = skip_value(json, begin);
    if (key == kKey) return {begin, end};
    at = end + 1;
  }
  return {std::string_view::npos, std::string_view::npos};
}
}  // namespace

void AddedTokens::split(const Piece& piece, bool normalized, const ByteRanges& given, PieceSink plain,
                        TokenSink token) const {
  const StringMatcher& matcher = normalized ? normalized_ : plain_;
  const std::string_view text = piece.text;
  const auto is_given = [&](size_t at) { return is_inside(given, piece.spans ? piece.spans[at].begin : at); };
  size_t done = 0, from = 0, stop = text.size();  // the next token is looked for between from and stop
  size_t blank_begin = 1,
         blank_end = 0;  // the last whitespace after a token, so that no character is tested twice
  StringMatcher::Match match{};
  for (;;) {
    if (!matcher.find(text.substr(0, stop), from, match)) {
      if (stop == text.size()) break;
      from = std::exchange(stop, text.size());
      continue;
    }
    from = match.end;
    const AddedToken& added = tokens_.find(match.value)->second.token;
    if (added.special && !given.empty() && (is_given(match.begin) || is_given(match.end - 1))) {
      // A token before or behind the edge of a given part is found even if this spelling reaches into it.
      const bool begins = is_given(match.begin);
      size_t edge = match.begin + 1;
      while (edge < match.end && is_given(edge) == begins) ++edge;
      from = begins ? edge : match.begin;
      if (!begins) stop = edge;
      continue;
    }
    if (added.single_word && ((match.begin > 0 && is_word(last_character(text.substr(0, match.begin)))) ||
                              (match.end < text.size() && is_word(first_character(text.substr(match.end))))))
      continue;
    if (added.rstrip && (match.end < blank_begin || match.end > blank_end)) {
      blank_begin = match.end;
      blank_end = strip_right(text, match.end);
    }
    const size_t begin = added.lstrip ? std::max(strip_left(text, match.begin, done), done) : match.begin;
    const size_t end = added.rstrip ? blank_end : match.end;
    if (begin >= end) continue;  // an earlier token included the whitespace
    if (done < begin) plain(piece.part(done, begin));
    token(piece.part(begin, end), match.value);
    done = end;
  }
  if (done < text.size()) plain(piece.part(done, text.size()));
}

base::Json json_of(int64_t id, const AddedToken& token) {
  return {{"id", id},
          {"content", token.content},
          {"single_word", token.single_word},
          {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},
          {"normalized", token.normalized},
          {"special", token.special}};
}

std::string with_added_tokens(std::string_view json, const std::map<int32_t, AddedToken>& tokens) {
  base::Json all = base::Json::array();
  for (const auto& [id, token] : tokens) all.push_back(json_of(id, token));
  const std::string list = all.dump(2);
  const auto [begin, end] = find_value(json);
  std::string out;
  if (begin == std::string_view::npos) {
    const size_t first = json.find('{') + 1;
    const bool alone = json[skip_space(json, first)] == '}';
    out = json.substr(0, first);
    out += fmt::format("\"{}\": {}{}", kKey, list, alone ? "" : ",");
    return out += json.substr(first);
  }
  out = json.substr(0, begin);
  out += list;
  return out += json.substr(end);
}

}  // namespace trl::text
