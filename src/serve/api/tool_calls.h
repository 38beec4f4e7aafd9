// Answers of models as messages: what is text, what is reasoning, and which tools are called.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "serve/api/prompt.h"
#include "serve/engine/model.h"
#include "text/response/response_parser.h"

namespace trl::serve {

struct ToolCall {
  std::string id, name, arguments;  // arguments: JSON
};

struct Message {
  std::string reasoning, content;
  std::vector<ToolCall> calls;
};

// How answers to one prompt are read. Immutable: any thread.
class MessageReader {
 public:
  // form: of the chat template. prompt: as the template made it. all_calls: not only the first.
  MessageReader(const ServedModel& model, const text::ResponseForm& form, std::string prompt,
                base::Json tools, bool all_calls);
  const text::ResponseForm& form() const { return form_; }
  // Returns what the prompt has written of the answer.
  std::string_view beginning() const { return parser_.after_anchor(prompt_); }
  // Returns the whole message, the beginning included; none: the text is not in the form. text: of the ids,
  // without special tokens, up to a stop text.
  std::optional<Message> read(const Ids& ids, const std::string& text) const;

 private:
  const ServedModel& model_;
  const text::ResponseForm& form_;
  const text::ResponseParser parser_;
  const std::string prompt_;
  const base::Json tools_;
  const bool all_calls_;
};

// One answer while it is written. Text and reasoning are told as they come; from the first mark of a call on
// all is held back to the end, and then read.
class MessageStream {
 public:
  explicit MessageStream(std::shared_ptr<const MessageReader> reader);
  // Returns what more text adds.
  Message add(std::string_view text);
  // Returns what is left to tell. ids, text: of the whole answer.
  Message end(const Ids& ids, const std::string& text);

 private:
  struct Told {         // of a field
    std::string text;   // without white space at its ends
    std::string space;  // that follows, if text does
    std::string take(std::string_view more);
    std::string rest(const std::string& whole) const;
  };
  bool step(Message& out);
  const std::shared_ptr<const MessageReader> reader_;
  Told content_, reasoning_;
  std::string waiting_;       // may be the beginning of a mark
  std::string_view close_{};  // of the field that waiting_ is in; empty: it is content
  bool held_ = false;
};

// Returns a reader if it is known how models of the chat template write calls, else null.
std::shared_ptr<const MessageReader> message_reader(const ServedModel& model,
                                                    const std::string& chat_template, std::string prompt,
                                                    const base::Json& tools, bool all_calls);

}  // namespace trl::serve
