// A model that is served: its names, tokenizer, positions and thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "serve/engine/worker.h"
#include "serve/handles.h"
#include "serve/options.h"
#include "serve/weights/adapters.h"
#include "serve/weights/weights.h"

namespace trl::serve {

class ServedModel {
 public:
  // names: the first is the one in answers. adapts: the model takes adapters and weights.
  ServedModel(const capi::ServeTable& table, std::vector<std::string> names, ModelOptions options,
              std::unique_ptr<ModelHandle> model, std::unique_ptr<GeneratorHandle> generator,
              std::unique_ptr<TokenizerHandle> tokenizer, bool adapts);
  const std::string& name() const { return names_.front(); }
  const std::vector<std::string>& names() const { return names_; }
  const ModelOptions& options() const { return options_; }
  const trl_generator* generator() const { return generator_->get(); }
  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }
  Adapters& adapters() { return adapters_; }
  const Adapters& adapters() const { return adapters_; }
  Weights& weights() { return weights_; }
  const Weights& weights() const { return weights_; }
  // Returns whether requests may give this name: the model's, or an adapter's.
  bool has(std::string_view name) const;
  // The name in answers to requests that give this one: the adapter's, or the model's first.
  std::string name_in_answers(const std::optional<std::string>& name) const;
  std::optional<int64_t> max_length() const { return max_length_; }  // tokens of a prompt with its completion
  int64_t created() const { return created_; }                       // seconds since 1970
  std::string dtype() const { return dtype_; }
  int64_t vocab_size() const { return vocab_size_; }  // of the tokenizer
  // The first id that the model does not have. It may have more than the tokenizer, and write them.
  int64_t end_of_ids() const { return most_ids_.value_or(int64_t{1} << 31); }

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  // Leaves out ids that the tokenizer does not have.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;
  // conversation: as trl_tokenizer_apply_chat_template takes it; of a request, so that its texts are UTF-8.
  std::string render(const base::Json& conversation) const;
  const trl_tokenizer* tokenizer() const { return tokenizer_->get(); }
  // Returns the text of the chat template of conversations with or without tools; empty: there is none.
  const std::string& chat_template(bool tools) const { return templates_[tools ? 1 : 0]; }

 private:
  const std::vector<std::string> names_;
  ModelOptions options_;
  const std::unique_ptr<ModelHandle> model_;
  const std::unique_ptr<GeneratorHandle> generator_;
  const std::unique_ptr<TokenizerHandle> tokenizer_;
  std::optional<int64_t> max_length_, most_ids_;
  int64_t created_ = 0, vocab_size_ = 0;
  std::string dtype_;
  std::array<std::string, 2> templates_;
  Worker worker_;
  Adapters adapters_;
  Weights weights_;
};

}  // namespace trl::serve
