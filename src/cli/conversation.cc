#include "cli/conversation.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/handles.h"

namespace trl::cli {

Conversation::Conversation(std::string system) : system_(std::move(system)) { reset(); }

void Conversation::reset() {
  messages_ = nlohmann::ordered_json::array();
  if (!system_.empty()) add("system", system_);
}

void Conversation::add(const char* role, const std::string& text) {
  messages_.push_back({{"role", role}, {"content", text}});
}

void Conversation::take_back() { messages_.erase(messages_.size() - 1); }

std::string Conversation::to_render() const {
  const nlohmann::ordered_json request{{"messages", messages_}, {"add_generation_prompt", true}};
  return request.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void Conversation::save(const std::string& path) const {
  const nlohmann::ordered_json row{{"messages", messages_}};
  std::ofstream file(path, std::ios::app);
  file << row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  file.flush();
  if (!file) throw Failure(kFailed, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

}  // namespace trl::cli
