// Decoders: turn the tokens' texts back into the text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/field.h"

namespace trl::text {

struct DecodeMode {
  bool lossy = false;      // bytes that are not UTF-8 may be replaced
  bool continues = false;  // other text precedes these tokens
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens, DecodeMode mode) const = 0;
};

class Decoders {
 public:
  Decoders() = default;
  explicit Decoders(const Field& field);  // decoder of tokenizer.json

  std::string run(std::vector<std::string> tokens, DecodeMode mode) const;

 private:
  // joined: the steps so far make one text of the tokens
  void read(const Field& field, bool& joined, int depth);

  std::vector<std::unique_ptr<Decoder>> steps_;
  bool present_ = false;  // without a decoder tokens are joined by spaces
};

}  // namespace trl::text
