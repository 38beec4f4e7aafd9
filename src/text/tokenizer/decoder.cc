#include "text/tokenizer/pipeline.h"

#include <algorithm>
#include <numeric>

#include "base/text/utf8.h"
#include "text/tokenizer/steps.h"

namespace trl::text {

namespace {
constexpr const char* kReplacement = "\xEF\xBF\xBD";

using Texts = std::vector<std::string>;

void join_as(Texts& tokens, std::string all) {
  tokens.clear();
  tokens.push_back(std::move(all));
}

// Decodes the byte alphabet; a token with a character outside of it is unchanged.
void decode_bytes(Texts& tokens, DecodeMode) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const size_t before = bytes.size();
    for (size_t at = 0; at < token.size();) {
      const char32_t c = base::next_code_point(token, at);
      const int16_t byte = c < kByteAlphabetEnd ? kCharacterBytes[c] : int16_t{-1};
      if (byte < 0) {
        bytes.replace(before, std::string::npos, token);
        break;
      }
      bytes.push_back(static_cast<char>(byte));
    }
  }
  join_as(tokens, std::move(bytes));
}

void fuse(Texts& tokens, DecodeMode) {
  join_as(tokens, std::accumulate(tokens.begin(), tokens.end(), std::string()));
}

// Returns the byte of a token such as <0x0A>.
std::optional<char> byte_of(const std::string& token) {
  constexpr std::string_view kDigits = "0123456789ABCDEFabcdef";
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : {token[3], token[4]}) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = 16 * value + static_cast<int>(digit > 15 ? digit - 6 : digit);
  }
  return static_cast<char>(value);
}

// Turns runs of <0x00> ... tokens into bytes; a run that is not UTF-8 becomes one U+FFFD per byte.
void fall_back_to_bytes(Texts& tokens, DecodeMode mode) {
  Texts out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (!mode.lossy || base::find_invalid_utf8(run) == base::kValid)
      out.push_back(std::move(run));
    else
      out.insert(out.end(), run.size(), kReplacement);
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of(token)) {
      run.push_back(*byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

void replace_matches(Texts& tokens, const Pattern& pattern, const std::string& content) {
  MatchSpace space;
  std::string out;
  for (std::string& token : tokens) {
    if (base::find_invalid_utf8(token) != base::kValid)
      continue;  // bytes for streaming: patterns do not apply to them
    out.clear();
    pattern(token, space, [&](size_t begin, size_t end, bool match) {
      match ? out.append(content) : out.append(token, begin, end - begin);
      refuse_growth(token.size(), out.size(), "decoder");
    });
    token = out;
  }
}

// content: one character
void strip_ends(Texts& tokens, const std::string& content, int64_t start, int64_t stop) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (int64_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
    for (int64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
    token = std::string(rest);
  }
}

// Decodes SentencePiece's mark of a space; removes the one that was put before the text.
void decode_marks(Texts& tokens, const MetaspaceSettings& settings, DecodeMode mode) {
  const std::string& mark = settings.replacement;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool first = i == 0 && !mode.continues && settings.scheme != PrependScheme::never;
    std::string& token = tokens[i];
    for (size_t at = 0; (at = token.find(mark, at)) != std::string::npos; at += !first)
      token.replace(at, mark.size(), first ? "" : " ");
  }
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  size_t at = text.find(what);
  if (at == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(by);
    done = at + what.size();
  }
  text = out.append(text, done);
}

// English as it is written.
void clean_up(std::string& token) {
  constexpr std::pair<const char*, const char*> kCleanup[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : kCleanup) replace_all(token, what, by);
}

// A token without the prefix begins a word.
void join_word_pieces(Texts& tokens, const std::string& prefix, bool cleanup, DecodeMode mode) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0 || mode.continues)
      token.starts_with(prefix) ? token.erase(0, prefix.size()) : token.insert(0, 1, ' ');
    if (cleanup) clean_up(token);
  }
}

// CTC: repeated tokens are one token, and the pad token is nothing.
void collapse(Texts& tokens, const std::string& pad, const std::string& delimiter, bool cleanup) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_all(token, pad, "");
    if (!cleanup) continue;
    clean_up(token);
    replace_all(token, delimiter, " ");
  }
  std::erase(tokens, std::string());
}

// A token with the suffix ends a word.
void end_words(Texts& tokens, const std::string& suffix, DecodeMode mode) {
  for (size_t i = 0; i < tokens.size(); ++i)
    replace_all(tokens[i], suffix, mode.lossy && i + 1 == tokens.size() ? "" : " ");
}

size_t bytes_of(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), size_t{0},
                         [](size_t sum, const std::string& token) { return sum + token.size(); });
}
}  // namespace

Decoders::Decoders(const Field& field) : present_(true) {
  bool joined = false;
  read(field, joined, 0);
}

void Decoders::read(const Field& field, bool& joined, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto step) { steps_.emplace_back(std::move(step)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("decoders").list()) read(item, joined, depth + 1);
  } else if (type == "ByteLevel") {
    add(decode_bytes);
    joined = true;
  } else if (type == "ByteFallback") {
    add(fall_back_to_bytes);
  } else if (type == "Fuse") {
    add(fuse);
    joined = true;
  } else if (type == "Replace") {
    add([pattern = read_pattern(field.at("pattern")), content = field.at("content").text()](
            Texts& tokens, DecodeMode) { replace_matches(tokens, pattern, content); });
  } else if (type == "Strip") {
    const Field content = field.at("content");
    if (base::count_code_points(content.text()) != 1)
      fail(Status::format, "{}: '{}' instead of one character", content.where(), content.text());
    const int64_t start = field.at("start").integer(0, 1 << 20), stop = field.at("stop").integer(0, 1 << 20);
    // If the tokens are joined, it is the text whose ends are stripped.
    add([character = content.text(), start, stop, joined](Texts& tokens, DecodeMode mode) {
      strip_ends(tokens, character, joined && mode.continues ? 0 : start, stop);
    });
  } else if (type == "WordPiece") {
    add([prefix = field.at("prefix").text(), cleanup = field.at("cleanup").boolean()](
            Texts& tokens, DecodeMode mode) { join_word_pieces(tokens, prefix, cleanup, mode); });
  } else if (type == "BPEDecoder") {
    const Field suffix = field.at("suffix");
    if (suffix.text().empty()) fail(Status::unsupported, "{}: '' cannot end a word", suffix.where());
    add([end = suffix.text()](Texts& tokens, DecodeMode mode) { end_words(tokens, end, mode); });
  } else if (type == "CTC") {
    for (const char* key : {"pad_token", "word_delimiter_token"})
      if (field.at(key).text().empty())
        fail(Status::unsupported, "{}.{}: '' is not a token", field.where(), key);
    add([pad = field.at("pad_token").text(), delimiter = field.at("word_delimiter_token").text(),
         cleanup = field.at("cleanup").boolean()](Texts& tokens, DecodeMode) {
      collapse(tokens, pad, delimiter, cleanup);
    });
  } else if (type == "Metaspace") {
    add([settings = read_metaspace(field)](Texts& tokens, DecodeMode mode) {
      decode_marks(tokens, settings, mode);
    });
  } else {
    field.unknown(
        "decoder",
        "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
  }
}

std::string Decoders::run(std::vector<std::string> tokens, DecodeMode mode) const {
  const size_t before = bytes_of(tokens);
  for (const auto& step : steps_) {
    step(tokens, mode);
    refuse_growth(before, bytes_of(tokens), "decoder");
  }
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!present_ && (i > 0 || mode.continues)) text += ' ';
    text += tokens[i];
  }
  return mode.lossy ? base::replace_invalid_utf8(text) : text;
}

}  // namespace trl::text
