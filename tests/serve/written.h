// A model of the fake library that writes a given answer, with a chat template whose form of calls is known.
#pragma once
#include <string>
#include <utility>

#include "fake_library.h"

namespace trl::serve::test {

inline constexpr const char* kJsonForm = "<|im_start|> <tool_call> arguments";

class Written {
 public:
  explicit Written(std::string answer, std::string chat_template = kJsonForm) {
    fake().answer = std::move(answer);
    fake().chat_template = std::move(chat_template);
    fake().positions = 1000;
  }
  ~Written() {
    fake().answer.clear();
    fake().chat_template.clear();
    fake().positions = 200;
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
};

}  // namespace trl::serve::test
