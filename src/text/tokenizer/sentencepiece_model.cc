// The limits are those of SentencePiece 0.1.97: normalizer.cc looks for at most 32 rules that begin at a
// character, and for at most 64 user-defined pieces.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/files/module_path.h"
#include "base/text/utf8.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/sentencepiece_tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {

// Reads the fields of a serialized Protocol Buffers message in order; refuses groups, which are no longer
// written.
class ProtobufReader {
 public:
  enum class Kind : uint8_t { integer = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };
  struct Field {
    uint32_t number;
    Kind kind;
    uint64_t integer;        // value of kind integer
    std::string_view bytes;  // value of the other kinds
    std::string_view whole;  // with its tag
  };

  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // false: the message is at its end, or broken.
  bool next(Field& field) {
    const std::string_view before = rest_;
    uint64_t tag = 0;
    if (rest_.empty()) return false;
    good_ = read_integer(tag) && tag <= UINT32_MAX && tag >> 3 != 0;
    if (!good_) return false;
    field = {static_cast<uint32_t>(tag >> 3), static_cast<Kind>(tag & 7), 0, {}, {}};
    good_ = read_value(field);
    field.whole = before.substr(0, before.size() - rest_.size());
    return good_;
  }
  bool good() const { return good_; }

 private:
  bool read_value(Field& field) {
    switch (field.kind) {
      case Kind::integer:
        return read_integer(field.integer);
      case Kind::eight_bytes:
        return take(8, field.bytes);
      case Kind::four_bytes:
        return take(4, field.bytes);
      case Kind::bytes: {
        uint64_t size = 0;
        return read_integer(size) && take(size, field.bytes);
      }
    }
    return false;
  }
  bool read_integer(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool take(uint64_t size, std::string_view& bytes) {
    if (size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool good_ = true;
};

constexpr size_t kMaxPiece = 1024;  // bytes; SentencePiece trains pieces of 16 characters
constexpr size_t kMostNested = 64;  // user-defined pieces that one piece begins with
constexpr size_t kMaxFile = (size_t{1} << 31) - 1;
enum PieceType : uint64_t { kUserDefined = 4, kLastType = 6 };

// Checks a tokenizer.model before SentencePiece's library sees it: given a damaged file, the library reads
// beyond the ends of its tables or ends the process. Returns the parts of a serialized ModelProto that the
// library needs, without its self tests. Fields as in sentencepiece_model.proto. Throws Error(format) that
// names path and the fault.
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
    fail(Status::format, "{}: not a SentencePiece model: {}", Place::in(path_),
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
    std::ranges::sort(user_defined_);
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
using sentencepiece::Module;
using sentencepiece::TextSink;

void append(void* to, const char* text, size_t size) { static_cast<std::string*>(to)->append(text, size); }
TextSink sink(std::string& text) { return {&text, append}; }

// Sanitizers abort a process that uses RTLD_DEEPBIND.
bool is_sanitized() {
  return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
}

// The library's names and those of the Protocol Buffers in it stay within the module, except under a
// sanitizer; there no other Protocol Buffers may be loaded.
const Module& open_module(const std::string& model) {
  const std::string path = base::module_path(sentencepiece::kModuleFile);
  if (path.empty())
    fail(Status::unsupported,
         "{}: SentencePiece models are read by {}, which this build lacks: it is made where "
         "libsentencepiece-dev is installed; a tokenizer.json next to it is always read",
         model, sentencepiece::kModuleFile);
  return base::open_module<Module>(path, sentencepiece::kEntryName, sentencepiece::kModuleVersion,
                                   is_sanitized() ? 0 : RTLD_DEEPBIND);
}

const Module& find_module(const std::string& model) {
  static const Module& module = open_module(model);  // tried again after a failure
  return module;
}
}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view bytes, std::string path)
    : module_(&find_module(path)), path_(std::move(path)) {
  const std::string checked = SentencePieceCheck(path_).run(bytes);
  std::string error;
  const TextSink reason = sink(error);
  model_.reset(module_->open(checked.data(), checked.size(), &reason), module_->close);
  if (!model_)
    fail(Status::format, "{}: not a SentencePiece model: {}", Place::in(path_), base::one_line(error));
}

std::string SentencePieceModel::piece(int32_t id) const {
  std::string text;
  const TextSink to = sink(text);
  module_->piece(model_.get(), id, &to);
  return text;
}

int32_t SentencePieceModel::find(std::string_view text) const {
  if (text.empty()) return -1;
  const int32_t id = module_->find(model_.get(), text.data(), text.size());
  return id >= 0 && id < size() && piece(id) == text ? id : -1;
}

void SentencePieceModel::encode(std::string_view text, uint32_t origin, Tokens& out) const {
  struct Out {
    Tokens& tokens;
    uint32_t origin;
  } to{out, origin};
  const sentencepiece::TokenSink tokens = {&to, [](void* where, int32_t id, uint32_t begin, uint32_t end) {
                                             auto& o = *static_cast<Out*>(where);
                                             o.tokens.ids.push_back(id);
                                             if (o.tokens.tracked)
                                               o.tokens.spans.push_back({o.origin + begin, o.origin + end});
                                           }};
  std::string error;
  const TextSink reason = sink(error);
  if (!module_->encode(model_.get(), text.data(), text.size(), &tokens, &reason))
    fail(Status::format, "{}: a text of {} bytes cannot be encoded: {}", path_, text.size(), error);
}

std::string SentencePieceModel::decode(std::span<const int32_t> ids) const {
  std::string text, error;
  const TextSink to = sink(text);
  const TextSink reason = sink(error);
  if (!module_->decode(model_.get(), ids.data(), ids.size(), &to, &reason))
    fail(Status::format, "{}: {} ids cannot be decoded: {}", path_, ids.size(), error);
  return text;
}

}  // namespace trl::text
