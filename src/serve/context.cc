#include "serve/context.h"

#include <fmt/format.h>

#include "base/log.h"

namespace trl::serve {

ServedModel& Context::model_named(const std::optional<std::string>& name) const {
  if (!name || name->empty()) return *models.front();
  for (const auto& model : models)
    for (const std::string& other : model->names())
      if (other == *name) return *model;
  throw Refusal(404, fmt::format("The model `{}` does not exist.", *name), "model");
}

void Context::debug(const std::string& text) const {
  table.log(runtime, static_cast<int32_t>(base::LogLevel::debug), "serve", text.c_str());
}

}  // namespace trl::serve
