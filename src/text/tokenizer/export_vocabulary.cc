// Names a byte-level BPE ("gpt2") by the split patterns before it; a SentencePiece BPE ("llama") has scores
// instead of merges. Each is compared with the tokenizer that would be read back: a property that a file
// cannot store is refused, and a warning says if llama.cpp reads it differently.
#include "text/tokenizer/plain_vocabulary.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/steps.h"

namespace trl::text {

namespace {
using base::Json;

bool is_true(const Json& object, const char* key) { return part_of(object, key) == true; }

class Export {
 public:
  Export(const Tokenizer& tokenizer, const std::string& origin, base::LogSink* log)
      : tokenizer_(tokenizer), origin_(origin), log_(log) {
    const Files files = tokenizer.files();
    const ClassRow* row = find_class_row(tokenizer.built_as());
    json_ = read_tokenizer_json(*find_file(files, "tokenizer.json"), origin);
    if (row != nullptr) rebuild(json_, *row, read_settings(files, origin, row), origin);
  }

  PlainVocabulary made() {
    const Json model = part_of(json_.rest, "model");
    const std::string type = model_type(json_);
    if (type != "BPE")
      fail(Status::unsupported, "{}: the tokenizer's model is {}; GGUF files are written for BPE only",
           origin_, type);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (part_of(model, key).is_string() && !part_of(model, key).get<std::string>().empty())
        fail(Status::unsupported, "{}: the tokenizer has a {}, which a GGUF file cannot store", origin_, key);
    put_tokens(is_true(model, "byte_fallback"));
    put_special();
    is_true(model, "byte_fallback") ? put_scores() : put_merges(is_true(model, "ignore_merges"));
    v_.chat_templates = tokenizer_.chat_templates();
    return std::move(v_);
  }

 private:
  void put_tokens(bool scored) {
    std::vector<std::string> cut;
    const std::map<int32_t, AddedToken> added = tokenizer_.added_tokens();
    for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
      const std::optional<std::string> token = tokenizer_.id_to_token(id);
      v_.tokens.push_back(token.value_or(fmt::format("[PAD{}]", id)));
      v_.token_types.push_back(!token ? kUnused : kNormal);
      const auto found = added.find(id);
      const bool is_byte = scored && token && token->size() == 6 && token->starts_with("<0x");
      if (is_byte) v_.token_types.back() = kByte;
      if (found == added.end()) continue;
      const AddedToken& flags = found->second;
      v_.token_types.back() = scored && token == tokenizer_.special().unk ? kUnknown
                              : flags.special                             ? kControl
                                                                          : kUserDefined;
      if (flags.lstrip || flags.rstrip || flags.single_word) cut.push_back(*token);
    }
    if (log_ != nullptr && !cut.empty())
      log_->warning("text",
                    "{}: a GGUF file cannot store lstrip, rstrip and single_word of {}: spaces next to these "
                    "tokens stay",
                    origin_, fmt::join(cut, ", "));
  }

  void put_special() {
    const auto id = [&](const auto& token) { return tokenizer_.special_id(token).value_or(-1); };
    v_.bos = id(tokenizer_.special().bos);
    v_.eos = id(tokenizer_.special().eos);
    v_.unk = id(tokenizer_.special().unk);
    v_.pad = id(tokenizer_.special().pad);
    // Encodes a text to see the tokens around it.
    const std::vector<int32_t> bare = tokenizer_.encode("a", false);
    const std::vector<int32_t> whole = tokenizer_.encode("a", true);
    const auto found = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
    const auto before = found - whole.begin();
    const auto after = whole.end() - found - std::ssize(bare);
    const bool named = (before == 0 || v_.bos == -1 || v_.bos == whole.front()) &&
                       (after == 0 || v_.eos == -1 || v_.eos == whole.back());
    if (found == whole.end() || before > 1 || after > 1 || !named) {
      fail(Status::unsupported,
           "{}: the tokenizer's post_processor puts other tokens around a text than BOS and EOS, which are "
           "all that GGUF files can have",
           origin_);
    }
    v_.add_bos = before == 1;
    v_.add_eos = after == 1;
    if (before == 1) v_.bos = whole.front();
    if (after == 1) v_.eos = whole.back();
  }

  // Replaces "keep the matches" by "isolate" if the pattern matches every text: they are the same then.
  static nlohmann::json isolated(nlohmann::json steps) {
    if (!steps.is_array()) return steps;
    for (nlohmann::json& step : steps) {
      if (step.value("behavior", "") != "Removed" || !step.value("invert", false)) continue;
      step["behavior"] = "Isolated";
      step.erase("invert");
    }
    return steps;
  }

  void put_merges(bool ignore_merges) {
    v_.model = "gpt2";
    const Json normalizer = part_of(json_.rest, "normalizer");
    const bool nfc = normalizer.is_object() && normalizer.value("type", "") == "NFC";
    const auto before = isolated(bare_step(part_of(json_.rest, "pre_tokenizer")));
    const GgufPre* pre = nfc || normalizer.is_null() ? find_gguf_pre_like([&](const GgufPre& known) {
      return known.nfc == nfc && known.ignore_merges == ignore_merges &&
             bare_step(pre_tokenizer_of(known)) == before;
    })
                                                     : nullptr;
    if (pre == nullptr) {
      fail(Status::unsupported,
           "{}: this build knows no llama.cpp name for this tokenizer: normalizer {}, pre_tokenizer {}, "
           "ignore_merges {}; names are known for {}",
           origin_, normalizer.dump(), before.dump(), ignore_merges, known_gguf_pres());
    }
    v_.pre = pre->name;
    for (const auto& [left, right] : json_.merges) v_.merges.push_back(left + " " + right);
  }

  // Scores the token of each merge, in the order of its first merge: the earlier, the higher.
  void put_scores() {
    v_.model = "llama";
    put_space();
    std::unordered_map<std::string, float> rank;
    for (const auto& [left, right] : json_.merges) {
      const auto next = -static_cast<float>(rank.size()) - 1;
      rank.emplace(left + right, next);
    }
    const auto last = -static_cast<float>(rank.size()) - 1;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      const auto found = rank.find(v_.tokens[i]);
      v_.scores.push_back(v_.token_types[i] != kNormal ? 0 : found == rank.end() ? last : found->second);
    }
    check_scores();
    unmark_added();
  }

  // llama.cpp looks for these in the text, and prints them, as they stand. (A run of spaces that is longer
  // than any token is cut from its left there, and by the order of merges here.)
  void unmark_added() {
    constexpr std::string_view kMark = kSpaceMark;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      std::string& token = v_.tokens[i];
      if (v_.token_types[i] != kUserDefined) continue;
      for (size_t at = 0; (at = token.find(kMark, at)) != token.npos; ++at)
        token.replace(at, kMark.size(), " ");
    }
  }

  // SentencePiece merges any two parts whose join is a token, by its score: these must be the same merges in
  // the same order, except for those that make the same token. Added tokens are found in the text before, so
  // their merges must come first, in any order. Where scores cannot say it, the file has the merges as well.
  void check_scores() {
    std::unordered_set<std::string> added;
    for (size_t i = 0; i < v_.tokens.size(); ++i)
      if (v_.token_types[i] == kUserDefined) added.insert(v_.tokens[i]);
    std::vector<std::pair<std::string, std::pair<std::string, std::string>>> ours, theirs;
    const auto put = [&](auto& merges, std::string left, std::string right) {
      const std::string made = left + right;
      if (merges.empty() && added.contains(made)) return;
      merges.push_back({made, {std::move(left), std::move(right)}});
    };
    for (const auto& [left, right] : json_.merges) put(ours, left, right);
    for (const auto& [left, right] : merges_of_scores(v_.tokens, v_.scores))
      put(theirs, std::string(left), std::string(right));
    const auto sort_runs = [](auto& merges) {
      for (size_t begin = 0, end = 0; begin < merges.size(); begin = end) {
        while (end < merges.size() && merges[end].first == merges[begin].first) ++end;
        std::sort(merges.begin() + static_cast<std::ptrdiff_t>(begin),
                  merges.begin() + static_cast<std::ptrdiff_t>(end));
      }
    };
    sort_runs(ours);
    sort_runs(theirs);
    const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
    if (a == ours.end() && b == theirs.end()) return;
    const auto& at = a != ours.end() ? *a : *b;
    for (const auto& [left, right] : json_.merges) v_.merges.push_back(left + " " + right);
    if (log_ != nullptr)
      log_->warning("text",
                    "{}: llama.cpp merges by the scores of tokens, and no scores give this tokenizer's order "
                    "of merges (merge {}, \"{}\" \"{}\", is the first that differs): some texts get other "
                    "token ids there. This library reads the merges from the file and gets the same ids",
                    origin_, a - ours.begin(), at.second.first, at.second.second);
  }

  void put_space() {
    using Bare = nlohmann::json;
    const Bare normalizer = bare_step(part_of(json_.rest, "normalizer"));
    const Bare split = bare_step(part_of(json_.rest, "pre_tokenizer"));
    const Bare prepend = Json{{"type", "Prepend"}, {"prepend", kSpaceMark}};
    const Bare mark = replace(" ", kSpaceMark);
    const bool by_normalizer = split.is_null() && normalizer == Bare::array({prepend, mark});
    // No space is left for Gemma's split at spaces.
    const Bare at_spaces = bare_step(
        Json{{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}});
    const bool marks_only = (split.is_null() || split == at_spaces) && normalizer == mark;
    bool known = by_normalizer || marks_only, always = by_normalizer;
    for (const char* scheme : {"first", "always", "never"}) {
      if (!normalizer.is_null() || split != bare_step(metaspace(scheme))) continue;
      known = true;
      v_.add_space_prefix = std::string_view(scheme) != "never";
      always = std::string_view(scheme) == "always";
    }
    if (marks_only) v_.add_space_prefix = false;
    if (!known)
      fail(Status::unsupported,
           "{}: normalizer {} with pre_tokenizer {}: llama.cpp's 'llama' vocabularies mark spaces, with or "
           "without one before the text, and do nothing else",
           origin_, normalizer.dump(), split.dump());
    if (always && log_ != nullptr)
      log_->warning("text",
                    "{}: this tokenizer puts a space before every text and behind every special token in it, "
                    "as llama.cpp does; transformers, and this library, put one before a text alone that "
                    "does not begin with one when they read a GGUF file",
                    origin_);
  }

  const Tokenizer& tokenizer_;
  const std::string& origin_;
  base::LogSink* log_;
  TokenizerJson json_;
  PlainVocabulary v_;
};
}  // namespace

PlainVocabulary export_vocabulary(const Tokenizer& tokenizer, const std::string& origin, base::LogSink* log) {
  return Export(tokenizer, origin, log).made();
}

}  // namespace trl::text
