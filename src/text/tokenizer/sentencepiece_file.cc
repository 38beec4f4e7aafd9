// The limits are those of SentencePiece 0.1.97: normalizer.cc looks for at most 32 rules that begin at a
// character, and for at most 64 user-defined pieces.
#include "text/tokenizer/sentencepiece_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/protobuf.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
constexpr size_t kMaxPiece = 1024;  // bytes; SentencePiece trains pieces of 16 characters
constexpr size_t kMostNested = 64;  // user-defined pieces that one piece begins with
constexpr size_t kMaxFile = (size_t{1} << 31) - 1;
enum PieceType : uint64_t { kUserDefined = 4, kLastType = 6 };

class SentencePieceCheck {
 public:
  explicit SentencePieceCheck(const std::string& path) : path_(path) {}

  std::string run(std::string_view model) {
    if (model.size() > kMaxFile) refuse("{} bytes: at most {} are read", model.size(), kMaxFile);
    std::string kept;
    for_each(model, "the model", [&](const Field& field) {
      if (field.number > 5 || field.number == 4) return;  // 4: self tests
      if (field.kind != Kind::bytes) refuse("its field {} is not a message", field.number);
      kept += field.whole;
      if (field.number == 1) return check_piece(field.bytes);
      if (seen_[field.number]) refuse("its field {} occurs twice", field.number);
      seen_[field.number] = true;
      field.number == 2 ? check_trainer(field.bytes) : check_normalizer(field.bytes);
    });
    if (pieces_ == 0) refuse("it has no pieces");
    check_nesting();
    return kept;
  }

 private:
  using Kind = ProtobufReader::Kind;
  using Field = ProtobufReader::Field;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail(Status::format, "{}: not a SentencePiece model: {}", path_,
         fmt::format(text, std::forward<Args>(args)...));
  }

  template <typename Body>
  void for_each(std::string_view message, std::string_view what, const Body& body) const {
    ProtobufReader reader(message);
    for (Field field; reader.next(field);) body(field);
    if (!reader.good()) refuse("{} is not a Protocol Buffers message", what);
  }
  void expect(const Field& field, Kind kind, std::string_view what) const {
    if (field.kind != kind) refuse("{}: its field {} has another type", what, field.number);
  }

  void check_piece(std::string_view message) {
    const std::string what = fmt::format("piece {}", pieces_++);
    if (pieces_ > kMaxTokenId + 1) refuse("more than {} pieces", kMaxTokenId + 1);
    std::string_view text;
    float score = 0;
    uint64_t type = 1;
    for_each(message, what, [&](const Field& field) {
      if (field.number > 3) return;
      expect(field,
             field.number == 1   ? Kind::bytes
             : field.number == 2 ? Kind::four_bytes
                                 : Kind::integer,
             what);
      if (field.number == 1) text = field.bytes;
      if (field.number == 2) std::memcpy(&score, field.bytes.data(), sizeof score);
      if (field.number == 3) type = field.integer;
    });
    if (text.empty() || text.size() > kMaxPiece)
      refuse("{} has {} bytes: 1 to {} are read", what, text.size(), kMaxPiece);
    if (text.find('\0') != text.npos || base::find_invalid_utf8(text) != base::kValid)
      refuse("{} is not UTF-8 text, or has a zero in it", what);
    if (!std::isfinite(score)) refuse("{} has a score that is not finite", what);
    if (type < 1 || type > kLastType) refuse("{} has the type {}: 1 to {} are known", what, type, +kLastType);
    if (!texts_.insert(text).second) refuse("{} is '{}', as an earlier piece is", what, text);
    if (type == kUserDefined) user_defined_.push_back(text);
  }

  void check_trainer(std::string_view message) const {
    for_each(message, "its trainer_spec", [&](const Field& field) {
      if (field.number != 3) return;
      expect(field, Kind::integer, "trainer_spec");
      if (field.integer < 1 || field.integer > 4)
        refuse("model_type {}: known are 1 (unigram), 2 (bpe), 3 (word), 4 (char)", field.integer);
    });
  }

  void check_normalizer(std::string_view message) const {
    std::string_view map;
    for_each(message, "a normalizer_spec", [&](const Field& field) {
      if (field.number != 2) return;
      expect(field, Kind::bytes, "normalizer_spec");
      map = field.bytes;
    });
    if (map.empty()) return;
    const std::string where = path_ + ": not a SentencePiece model: precompiled_charsmap";
    Charsmap(map, where).check_for_sentencepiece(where);
  }

  // Sorted, a piece comes after those that it begins with.
  void check_nesting() {
    std::sort(user_defined_.begin(), user_defined_.end());
    std::vector<std::string_view> around;
    for (const std::string_view piece : user_defined_) {
      while (!around.empty() && !piece.starts_with(around.back())) around.pop_back();
      around.push_back(piece);
      if (around.size() > kMostNested)
        refuse("{} user-defined pieces begin with one another: at most {} are read", around.size(),
               kMostNested);
    }
  }

  const std::string& path_;
  int64_t pieces_ = 0;
  bool seen_[6] = {};
  std::unordered_set<std::string_view> texts_;
  std::vector<std::string_view> user_defined_;
};
}  // namespace

std::string read_sentencepiece_file(std::string_view bytes, const std::string& path) {
  return SentencePieceCheck(path).run(bytes);
}

}  // namespace trl::text
