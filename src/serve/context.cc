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

void Context::load_adapter(ServedModel& model, const std::string& name, const std::string& path, bool replace,
                           Adapters::Done done) const {
  for (const auto& other : models)
    if (other->has(name) && (other.get() != &model || !model.adapters().find(name)))
      throw Refusal(400, fmt::format("lora_name: '{}' is another model's; choose another", name),
                    "lora_name");
  std::string line = fmt::format("adapter {} of {} comes from {}", name, model.name(), path);
  model.adapters().load(
      name, path, replace,
      [this, line = std::move(line), done = std::move(done)](const std::exception_ptr& why) {
        if (!why) log(base::LogLevel::info, line);
        done(why);
      });
}

void Context::log(base::LogLevel level, std::string_view text) const noexcept {
  try {
    table.log(runtime, static_cast<int32_t>(level), "serve", base::one_line(text).c_str());
  } catch (...) {
  }
}

}  // namespace trl::serve
