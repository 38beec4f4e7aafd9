#include "text/tokenizer/decoder.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/growth.h"
#include "text/tokenizer/metaspace.h"
#include "text/tokenizer/pattern.h"

namespace trl::text {

namespace {
constexpr const char* kReplacement = "\xEF\xBF\xBD";

// Decodes the byte alphabet; a token with a character outside of it is unchanged.
class ByteLevel final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, DecodeMode) const override {
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
    tokens.clear();
    tokens.push_back(std::move(bytes));
  }
};

// Runs of <0x00> ... tokens become bytes; a run that is not UTF-8 becomes one U+FFFD per byte.
class ByteFallback final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, DecodeMode mode) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (run.empty()) return;
      if (!mode.lossy || base::find_invalid_utf8(run) == base::kValid) {
        out.push_back(std::move(run));
      } else {
        out.insert(out.end(), run.size(), kReplacement);
      }
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

 private:
  static std::optional<char> byte_of(const std::string& token) {
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
};

class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens, DecodeMode) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.clear();
    tokens.push_back(std::move(all));
  }
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens, DecodeMode) const override {
    MatchSpace space;
    std::string out;
    for (std::string& token : tokens) {
      if (base::find_invalid_utf8(token) != base::kValid)
        continue;  // bytes for streaming: patterns do not apply to them
      out.clear();
      pattern_->cut(token, space, [&](size_t begin, size_t end, bool match) {
        match ? out.append(content_) : out.append(token, begin, end - begin);
        refuse_growth(token.size(), out.size(), "decoder");
      });
      token = out;
    }
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop, bool whole)
      : content_(std::move(content)), start_(start), stop_(stop), whole_(whole) {}
  void apply(std::vector<std::string>& tokens, DecodeMode mode) const override {
    const int64_t start = whole_ && mode.continues ? 0 : start_;
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;  // one character
  int64_t start_;
  int64_t stop_;
  bool whole_;  // the tokens were joined before: it is the text whose ends are stripped
};

// Decodes SentencePiece's mark of a space; removes the one that was put before the text.
class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceSettings settings) : settings_(std::move(settings)) {}
  void apply(std::vector<std::string>& tokens, DecodeMode mode) const override {
    const std::string& mark = settings_.replacement;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool first = i == 0 && !mode.continues && settings_.scheme != PrependScheme::never;
      std::string& token = tokens[i];
      for (size_t at = 0; (at = token.find(mark, at)) != std::string::npos; at += !first)
        token.replace(at, mark.size(), first ? "" : " ");
    }
  }

 private:
  MetaspaceSettings settings_;
};

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
class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens, DecodeMode mode) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 || mode.continues)
        token.starts_with(prefix_) ? token.erase(0, prefix_.size()) : token.insert(0, 1, ' ');
      if (cleanup_) clean_up(token);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

// CTC: repeated tokens are one token, and the pad token is nothing.
class Ctc final : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens, DecodeMode) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, pad_, "");
      if (!cleanup_) continue;
      clean_up(token);
      replace_all(token, delimiter_, " ");
    }
    std::erase(tokens, std::string());
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

// A token with the suffix ends a word.
class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens, DecodeMode mode) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, mode.lossy && i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};
}  // namespace

Decoders::Decoders(const Field& field) : present_(true) {
  bool joined = false;
  read(field, joined, 0);
}

void Decoders::read(const Field& field, bool& joined, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto step) { steps_.push_back(std::move(step)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("decoders").list()) read(item, joined, depth + 1);
  } else if (type == "ByteLevel") {
    add(std::make_unique<ByteLevel>());
    joined = true;
  } else if (type == "ByteFallback") {
    add(std::make_unique<ByteFallback>());
  } else if (type == "Fuse") {
    add(std::make_unique<Fuse>());
    joined = true;
  } else if (type == "Replace") {
    add(std::make_unique<ReplaceDecoder>(read_pattern(field.at("pattern")), field.at("content").text()));
  } else if (type == "Strip") {
    const Field content = field.at("content");
    if (base::count_code_points(content.text()) != 1)
      fail(Status::format, "{}: '{}' instead of one character", content.where(), content.text());
    add(std::make_unique<StripDecoder>(content.text(), field.at("start").integer(0, 1 << 20),
                                       field.at("stop").integer(0, 1 << 20), joined));
  } else if (type == "WordPiece") {
    add(std::make_unique<WordPieceDecoder>(field.at("prefix").text(), field.at("cleanup").boolean()));
  } else if (type == "BPEDecoder") {
    const Field suffix = field.at("suffix");
    if (suffix.text().empty()) fail(Status::unsupported, "{}: '' cannot end a word", suffix.where());
    add(std::make_unique<BpeDecoder>(suffix.text()));
  } else if (type == "CTC") {
    for (const char* key : {"pad_token", "word_delimiter_token"}) {
      if (field.at(key).text().empty())
        fail(Status::unsupported, "{}.{}: '' is not a token", field.where(), key);
    }
    add(std::make_unique<Ctc>(field.at("pad_token").text(), field.at("word_delimiter_token").text(),
                              field.at("cleanup").boolean()));
  } else if (type == "Metaspace") {
    add(std::make_unique<MetaspaceDecoder>(read_metaspace(field)));
  } else {
    field.unknown(
        "decoder",
        "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
  }
}

namespace {
size_t bytes_of(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), size_t{0},
                         [](size_t sum, const std::string& token) { return sum + token.size(); });
}
}  // namespace

std::string Decoders::run(std::vector<std::string> tokens, DecodeMode mode) const {
  const size_t before = bytes_of(tokens);
  for (const std::unique_ptr<Decoder>& step : steps_) {
    step->apply(tokens, mode);
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
