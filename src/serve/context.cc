#include "serve/context.h"

#include <fmt/format.h>

#include "base/text/utf8.h"

namespace trl::serve {

ServedModel& Context::model_named(const std::optional<std::string>& name) const {
  if (!name || name->empty()) return *models.front();
  for (const auto& model : models)
    if (model->has(*name)) return *model;
  throw Refusal(404, fmt::format("The model `{}` does not exist.", *name), "model");
}

void Context::load_adapter(ServedModel& model, const std::string& name, const std::string& path,
                           bool replace) const {
  for (const auto& other : models)
    if (other->has(name) && (other.get() != &model || !model.adapters().find(name)))
      throw Refusal(400, fmt::format("lora_name: '{}' is another model's; choose another", name),
                    "lora_name");
  model.adapters().load(name, path, replace);
  log(base::LogLevel::info, fmt::format("adapter {} of {} comes from {}", name, model.name(), path));
}

void Context::log(base::LogLevel level, const std::string& text) const {
  table.log(runtime, static_cast<int32_t>(level), "serve", base::one_line(text).c_str());
}

}  // namespace trl::serve
