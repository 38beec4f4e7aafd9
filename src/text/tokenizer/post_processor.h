// Post-processors: put BOS, EOS ... around the ids, and trim whitespace from offsets.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/field.h"
#include "text/tokenizer/piece.h"

namespace trl::text {

class PostProcessor {
 public:
  PostProcessor() = default;
  // id_end: all ids of the vocabulary are below
  PostProcessor(const Field& field, int32_t id_end);  // post_processor of tokenizer.json
  PostProcessor(std::optional<int32_t> before, std::optional<int32_t> after);  // the ids around the text

  // token_text: the text of the token at an index of tokens; text: the text that was encoded.
  using TokenText = FunctionRef<std::string_view(size_t index)>;
  void run(Tokens& tokens, std::string_view text, bool add_special_tokens, TokenText token_text) const;

 private:
  // One step: the template's parts, with nullopt for the text; or trimming.
  struct Step {
    bool trims = false;
    bool prefix_space = false;
    std::vector<std::optional<int32_t>> parts;
  };
  void read(const Field& field, int32_t id_end, int depth);
  void read_template(const Field& field, int32_t id_end);
  void add(const Field& field, std::vector<std::optional<int32_t>> parts);
  static void fill(const Step& step, Tokens& tokens, bool add_special_tokens);
  static void trim(const Step& step, Tokens& tokens, std::string_view text, TokenText token_text);

  std::vector<Step> steps_;
};

}  // namespace trl::text
