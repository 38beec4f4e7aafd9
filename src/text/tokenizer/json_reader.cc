#include "text/tokenizer/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text/polled_text.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
constexpr int kMostPower = 308;

double power_of_ten(int power) {
  static const std::array<double, kMostPower + 1> powers = [] {
    std::array<double, kMostPower + 1> all{};
    for (int i = 0; i <= kMostPower; ++i) {
      const std::string text = "1e" + std::to_string(i);
      std::from_chars(text.data(), text.data() + text.size(), all[static_cast<size_t>(i)]);
    }
    return all;
  }();
  return powers[static_cast<size_t>(power)];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number as far as they fit, and how the point is to be moved.
struct Parts {
  uint64_t digits = 0;
  int64_t exponent = 0;
};

Parts read_parts(std::string_view number) {
  Parts parts;
  bool full = false, fraction = false;
  for (const char c : number) {
    if (!is_digit(c)) {
      fraction = true;  // the point, which the JSON parser has replaced by that of the locale
      continue;
    }
    const auto digit = static_cast<uint64_t>(c - '0');
    full |= parts.digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (full) {
      parts.exponent += fraction ? 0 : 1;
    } else {
      parts.digits = 10 * parts.digits + digit;
      parts.exponent -= fraction ? 1 : 0;
    }
  }
  return parts;
}

using base::Json;

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, const std::string& origin, TokenizerJson& out, bool whole)
      : text_(text), origin_(origin), out_(out), whole_(whole) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override {
    if (in_pieces()) return score(static_cast<double>(v));
    return in_vocabulary() ? id(v) : value(v);
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (in_pieces()) return score(static_cast<double>(v));
    if (!in_vocabulary()) return value(v);
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return id(static_cast<int64_t>(std::min<uint64_t>(v, kMost)));
  }
  bool number_float(number_float_t v, const string_t& text) override {
    return in_pieces() ? score(read_score(text)) : value(v);
  }
  bool binary(binary_t&) override { return value(nullptr); }
  bool string(string_t& v) override {
    if (in_pieces()) return piece(v);
    return in_merges() ? merge_part(v) : value(std::move(v));
  }

  bool start_object(size_t) override {
    if (whole_ && at_model("vocab")) place_ = Within::vocabulary;
    return open(Json::object());
  }
  bool start_array(size_t) override {
    if (whole_ && at_model("merges")) {
      place_ = Within::merges;
      out_.has_merges = true;
    }
    if (whole_ && at_model("vocab")) place_ = Within::pieces;
    return open(Json::array());
  }
  bool key(string_t& key) override {
    keys_.back() = std::move(key);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (place_ == Within::merges && keys_.size() == 4) {
      if (pair_.size() != 2) bad_merge("a list of {} strings where two belong", pair_.size());
      out_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      pair_.clear();
    }
    if (in_pieces() && keys_.size() == 4 && pair_size_ != 2) bad_piece();
    pair_size_ = 0;
    return close();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view before = text_.substr(0, std::min(position > 0 ? position - 1 : 0, text_.size()));
    const size_t newline = before.rfind('\n');
    const size_t column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    const std::string_view what = error.what();
    const size_t colon = what.find(": ");
    const Place place{origin_, std::ranges::count(before, '\n') + 1, static_cast<int64_t>(column)};
    fail(Status::format, "{}: not valid JSON: {}", place,
         colon == std::string_view::npos ? what : what.substr(colon + 2));
  }

 private:
  enum class Within { elsewhere, vocabulary, pieces, merges };
  // Half a million added tokens; each value takes about 100 bytes.
  static constexpr size_t kMaxValues = size_t{1} << 22;

  bool at_model(std::string_view key) const {
    return keys_.size() == 2 && keys_[0] == "model" && keys_[1] == key;
  }
  bool in_vocabulary() const { return place_ == Within::vocabulary; }
  bool in_pieces() const { return place_ == Within::pieces; }
  bool in_merges() const { return place_ == Within::merges; }
  template <typename... Args>
  [[noreturn]] void bad_merge(fmt::format_string<Args...> text, Args&&... args) const {
    fail(Status::format, "{}: model.merges[{}]: {}", Place::in(origin_), out_.merges.size(),
         fmt::format(text, std::forward<Args>(args)...));
  }

  [[noreturn]] void bad_piece() const {
    fail(Status::format, "{}: model.vocab[{}]: expected a list of one token and its score",
         Place::in(origin_), out_.pieces.size() - (pair_size_ > 0 ? 1 : 0));
  }

  // ["token", score], one level below model.vocab
  bool piece(std::string& token) {
    if (keys_.size() != 4 || pair_size_ != 0) bad_piece();
    pair_size_ = 1;
    out_.pieces.emplace_back(std::move(token), 0);
    return true;
  }
  bool score(double score) {
    if (keys_.size() != 4 || pair_size_ != 1) bad_piece();
    pair_size_ = 2;
    if (!std::isfinite(score))
      fail(Status::format, "{}: model.vocab[{}]: the score is not finite", Place::in(origin_),
           out_.pieces.size() - 1);
    out_.pieces.back().second = score;
    return true;
  }

  bool id(int64_t id) {
    if (id < 0 || id > kMaxTokenId)
      fail(Status::format, "{}: model.vocab: '{}' has the id {}: 0 to {} are read", Place::in(origin_),
           keys_.back(), id, kMaxTokenId);
    out_.vocabulary.emplace_back(std::move(keys_.back()), static_cast<int32_t>(id));
    return true;
  }

  // "a b" below model.merges, or one of ["a", "b"] one level deeper.
  bool merge_part(std::string& text) {
    if (keys_.size() == 4) {
      if (pair_.size() == 2) bad_merge("more than two strings");
      pair_.push_back(std::move(text));
      return true;
    }
    if (text.starts_with("#version")) return true;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      bad_merge("'{}' instead of two tokens with a space between", text);
    out_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  bool value(Json v) {
    if (in_pieces()) bad_piece();
    if (in_vocabulary())
      fail(Status::format, "{}: model.vocab: '{}' has {} instead of an integer", Place::in(origin_),
           keys_.back(), kind_of(v));
    if (in_merges()) bad_merge("{} instead of a string", kind_of(v));
    add(std::move(v));
    return true;
  }

  // Repeated keys are kept after the first, which is the one that is found.
  Json* add(Json v) {
    if (++values_ > kMaxValues)
      fail(Status::format, "{}: more than {} values beside vocabulary and merges", Place::in(origin_),
           kMaxValues);
    if (nodes_.empty()) {
      out_.rest = std::move(v);
      return &out_.rest;
    }
    Json& parent = *nodes_.back();
    if (parent.is_array()) {
      auto& items = parent.get_ref<Json::array_t&>();
      return &items.emplace_back(std::move(v));
    }
    auto& members = parent.get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(keys_.back(), std::move(v));
    return &members.back().second;
  }

  bool open(Json v) {
    const bool nested = keys_.size() > 2 && place_ != Within::elsewhere;
    if (nested && in_pieces()) {
      if (keys_.size() > 3 || !v.is_array()) bad_piece();
      keys_.emplace_back();
      return true;
    }
    if (nested && in_vocabulary())
      fail(Status::format, "{}: model.vocab: '{}' has {} instead of an integer", Place::in(origin_),
           keys_.back(), kind_of(v));
    if (nested && (keys_.size() > 3 || !v.is_array())) bad_merge("{} instead of a string", kind_of(v));
    if (keys_.size() >= base::kMaxJsonDepth)
      fail(Status::format, "{}: nested deeper than {} levels", Place::in(origin_), base::kMaxJsonDepth);
    if (place_ == Within::elsewhere) nodes_.push_back(add(std::move(v)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    if (place_ == Within::elsewhere)
      nodes_.pop_back();
    else if (keys_.size() == 2)
      place_ = Within::elsewhere;
    return true;
  }

  std::string_view text_;
  const std::string& origin_;
  TokenizerJson& out_;
  bool whole_;  // vocabulary and merges are read separately
  Within place_ = Within::elsewhere;
  std::vector<std::string> keys_;  // the key in each open object or list
  std::vector<Json*> nodes_;       // open objects and lists of the tree
  std::vector<std::string> pair_;  // of a merge
  int pair_size_ = 0;              // of a token and its score
  size_t values_ = 0;              // of the tree
};

TokenizerJson read(std::string_view text, const std::string& origin, bool whole) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  TokenizerJson out;
  Reader reader(text, origin, out, whole);
  Json::sax_parse(base::PolledText::begin(text), base::PolledText::end(text), &reader);
  if (!out.rest.is_object())
    fail(Status::format, "{}: {} instead of an object", Place::in(origin), kind_of(out.rest));
  return out;
}
}  // namespace

double read_score(std::string_view number) {
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const size_t e = number.find_first_of("eE");
  Parts parts = read_parts(number.substr(0, e));
  if (e != std::string_view::npos) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    int32_t exponent = text.starts_with('-') ? std::numeric_limits<int32_t>::min() / 2
                                             : std::numeric_limits<int32_t>::max() / 2;  // if out of range
    std::from_chars(text.data(), text.data() + text.size(), exponent);
    parts.exponent += exponent;
  }
  auto value = static_cast<double>(parts.digits);
  for (; parts.exponent < -kMostPower && value != 0; parts.exponent += kMostPower)
    value /= power_of_ten(kMostPower);
  if (value != 0 && parts.exponent > kMostPower) value = std::numeric_limits<double>::infinity();
  if (value != 0 && parts.exponent < 0) value /= power_of_ten(static_cast<int>(-parts.exponent));
  if (value != 0 && parts.exponent > 0 && parts.exponent <= kMostPower)
    value *= power_of_ten(static_cast<int>(parts.exponent));
  return negative ? -value : value;
}

TokenizerJson read_tokenizer_json(std::string_view text, const std::string& origin) {
  return read(text, origin, true);
}
const char* model_type(const TokenizerJson& json) {
  if (!json.pieces.empty()) return "Unigram";
  const auto model = json.rest.find("model");
  const bool words = model != json.rest.end() && model->is_object() && !json.has_merges &&
                     model->contains("max_input_chars_per_word");
  return words ? "WordPiece" : "BPE";
}
Json read_small_json(std::string_view text, const std::string& origin) {
  return read(text, origin, false).rest;
}

}  // namespace trl::text
