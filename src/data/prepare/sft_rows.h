// Turns one row into token ids and labels, by TRL's rules for SFT (trl/trainer/sft_trainer.py,
// _prepare_dataset). The first row decides what holds for the whole dataset; every other row must be of the
// same format.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/sft.h"
#include "data/row/columns.h"
#include "data/row/row_text.h"

namespace trl::data {

struct Tokens {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;  // ids or kIgnored; as many
  // The end of the prompt that the joint tokenisation does not have, if any.
  std::optional<std::string> lost;
  std::vector<int32_t> documents = {};  // seq_lengths of a row of ids; empty: one document
  size_t left_out = 0;  // number, from 1, of the message that the chat template leaves out; 0: no message
};

class SftRows {
 public:
  SftRows(const PrepareContext& context, const Row& first);
  // any thread. Changes the row (renames, from/value, EOS).
  Tokens tokens(Row& row) const;
  bool completion_only_loss() const { return completion_only_; }
  Format format() const { return format_; }
  bool has_template() const { return renderer_.has_value(); }
  // Renames columns and turns from/value into messages, and Alpaca's columns into prompt and completion, as
  // tokens() does first. Throws if the row's format is not that of the first.
  void normalize(Row& row) const;
  // Returns the bytes that the chat template adds to the JSON of a normalized row's messages; at least 0.
  size_t rendered_overhead(const Row& row) const;

 private:
  struct Rendering {
    std::vector<int32_t> ids;
    std::vector<uint8_t> assistant;  // empty: not requested
    size_t left_out = 0;
  };
  void convert(Row& row) const;
  void tell_unread(const Row& given, const Row& converted) const;
  void open_template(const Row& first);
  void warn_unless_stop_is_trained() const;
  void append_eos(Row& row) const;
  Rendering render(const Row& row, const base::Json& messages, bool add_generation_prompt,
                   bool assistant) const;
  Tokens text(Row& row) const;  // appends EOS, as the next one does
  Tokens prompt_completion(Row& row) const;
  Tokens prompt_completion_messages(const Row& row) const;
  Tokens messages(const Row& row) const;
  Tokens tokenized(const Row& row) const;
  Tokens join(const std::vector<int32_t>& prompt, Rendering whole) const;
  Tokens labelled(Rendering rendering, const std::vector<uint8_t>& completion) const;

  const text::Tokenizer& tokenizer_;
  const config::DataArguments& arguments_;
  base::LogSink& log_;
  int64_t vocab_size_;
  std::string first_where_;
  Format format_ = Format::text;
  bool completion_only_ = false;
  std::array<bool, 4> beside_{};      // labels, masks and seq_lengths next to input_ids
  std::optional<Renderer> renderer_;  // for conversations
};

}  // namespace trl::data
