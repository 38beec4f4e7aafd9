// Pre-tokenizers: cut the text into the words that the model sees one by one.
#pragma once
#include <memory>
#include <vector>

#include "text/tokenizer/field.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/regex.h"

namespace trl::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // own: room for a text that the step writes; kept until the next call with it
  virtual void split(const Piece& piece, Buffer& own, MatchSpace& space, PieceSink next) const = 0;
};

class PreTokenizers {
 public:
  PreTokenizers() = default;
  explicit PreTokenizers(const Field& field);  // pre_tokenizer of tokenizer.json

  size_t size() const { return steps_.size(); }
  // buffers: size() of them. Empty pieces are dropped.
  void run(const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space, PieceSink word) const {
    step(0, piece, buffers, space, word);
  }

 private:
  void read(const Field& field, int depth);
  void step(size_t index, const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space,
            PieceSink word) const;

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

}  // namespace trl::text
