// Decoders: from the tokens' texts back to the text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/field.h"

namespace trl::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // lossy: bytes that are no UTF-8 may be replaced
  virtual void apply(std::vector<std::string>& tokens, bool lossy) const = 0;
};

class Decoders {
 public:
  Decoders() = default;
  explicit Decoders(const Field& field);  // decoder of tokenizer.json

  std::string run(std::vector<std::string> tokens, bool lossy) const;

 private:
  void read(const Field& field, int depth);

  std::vector<std::unique_ptr<Decoder>> steps_;
  bool present_ = false;  // without a decoder tokens are joined by spaces
};

}  // namespace trl::text
