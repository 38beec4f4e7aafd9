#include "train/method.h"

#include "base/error.h"
#include "base/nearest.h"

namespace trl::train {

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Method> (*make)(const config::TrainingArguments&, model::Model&,
                                  kernels::AttentionPluginPtr);
};
constexpr Entry kMethods[] = {{"sft", make_sft}};

}  // namespace

std::unique_ptr<Method> make_method(const config::TrainingArguments& arguments, model::Model& model,
                                    kernels::AttentionPluginPtr attention) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kMethods) {
    if (entry.name == arguments.method) return entry.make(arguments, model, std::move(attention));
    names.push_back(entry.name);
  }
  fail_key("method", "method '{}' is not in this build; accepted: {}", arguments.method, base::join(names));
}

}  // namespace trl::train
