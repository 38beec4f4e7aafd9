#include "text/chat_template/chat_template.h"
namespace trl::text {
std::optional<std::string> training_template(std::string_view) { return std::nullopt; }
}
