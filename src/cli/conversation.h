// The messages of a chat, for a chat template and as a row to train on.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace trl::cli {

class Conversation {
 public:
  explicit Conversation(std::string system);
  void reset();  // all but the system prompt
  void add(const char* role, const std::string& text);
  void take_back();  // the last message
  size_t size() const { return messages_.size(); }
  // Returns JSON for trl_tokenizer_apply_chat_template.
  std::string to_render() const;
  // Adds the conversation to a JSONL file, as a row that `trl sft` reads. Throws Failure.
  void save(const std::string& path) const;

 private:
  const std::string system_;
  nlohmann::ordered_json messages_;
};

}  // namespace trl::cli
