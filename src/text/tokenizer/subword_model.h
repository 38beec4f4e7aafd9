// The model of a tokenizer.json: a word in, ids out.
#pragma once
#include <memory>

#include "text/tokenizer/field.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

// Buffers that a model needs for one word, reused for all words of a call.
struct ModelSpace {
  virtual ~ModelSpace() = default;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::unique_ptr<ModelSpace> space() const = 0;
  // word is not empty; space is one of this model's
  virtual void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const = 0;
};

// root: tokenizer.json, without the parts that json holds separately, which are moved into the model.
std::unique_ptr<Model> read_model(const Field& root, TokenizerJson& json);

}  // namespace trl::text
