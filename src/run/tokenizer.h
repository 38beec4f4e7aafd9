// A tokenizer with its parsed chat templates.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/log.h"
#include "config/config.h"
#include "io/model_source.h"
#include "run/complete/constraints.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<text::Tokenizer> tokenizer);
  const text::Tokenizer& get() const { return *tokenizer_; }
  // conversation: a list of messages, or an object as trl_tokenizer_apply_chat_template takes it.
  std::string apply_chat_template(const base::Json& conversation) const { return render(conversation).text; }
  std::vector<int32_t> encode_conversation(const base::Json& conversation) const;
  // variables: of the template, such as data::template_variables gives.
  std::vector<int32_t> encode_messages(const base::Json& messages, const base::Json& variables) const;
  const std::string& describe() const { return described_; }
  Constraints& constraints() const { return constraints_; }  // of requests

 private:
  text::Rendered render(const base::Json& conversation) const;
  text::Rendered render(const base::Json& messages, const text::RenderOptions& options) const;
  std::vector<int32_t> encode(const text::Rendered& rendered) const;
  std::shared_ptr<const text::ChatTemplate> compiled(const std::string& source) const;
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const text::ChatTemplates templates_;
  std::string described_;
  mutable Constraints constraints_;
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<const text::ChatTemplate>> compiled_;  // of conversations, newest first
};

// Decodes ids; leaves out those that an embedding has beyond the tokenizer's tokens.
std::string text_of(const text::Tokenizer& tokenizer, std::vector<int32_t> ids, bool skip_special_tokens);

// Opens the tokenizer of a model with the overrides that options hold: eos_token, pad_token, chat_template,
// chat_template_path, split_special_tokens.
std::shared_ptr<Tokenizer> open_tokenizer(const io::ModelSource& model, const config::Config& options,
                                          base::LogSink& log);

}  // namespace trl::run
