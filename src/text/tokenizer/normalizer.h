// Normalizers: change the text before it is cut into words.
#pragma once
#include <memory>
#include <vector>

#include "text/tokenizer/field.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/regex.h"

namespace trl::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // false: the piece is unchanged, out is not used
  virtual bool apply(const Piece& piece, Buffer& out, MatchSpace& space) const = 0;
};

class Normalizers {
 public:
  Normalizers() = default;
  explicit Normalizers(const Field& field);  // normalizer of tokenizer.json

  size_t size() const { return steps_.size(); }
  // buffers: size() of them; the result is in one of them, or is the piece itself.
  Piece run(Piece piece, std::vector<Buffer>& buffers, MatchSpace& space) const;
  std::string run(std::string_view text) const;

 private:
  void read(const Field& field, int depth);

  std::vector<std::unique_ptr<Normalizer>> steps_;
};

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };
std::unique_ptr<Normalizer> unicode_form(UnicodeForm form);
std::unique_ptr<Normalizer> lowercase();
std::unique_ptr<Normalizer> strip_accents();
std::unique_ptr<Normalizer> nmt_rules();
std::vector<std::unique_ptr<Normalizer>> read_bert_normalizer(const Field& field);

}  // namespace trl::text
