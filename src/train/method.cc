#include "train/method.h"

#include "base/error.h"
#include "base/text/nearest.h"

namespace trl::train {

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Method> (*make)(const MethodContext&);
};
constexpr Entry kMethods[] = {
    {"sft", make_sft}, {"dpo", make_dpo}, {"reward", make_reward}, {"kto", make_kto}};

}  // namespace

std::unique_ptr<Method> make_method(const MethodContext& context) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kMethods) {
    if (entry.name == context.arguments.method) return entry.make(context);
    names.push_back(entry.name);
  }
  fail_key("method", "method '{}' is not in this build; accepted: {}", context.arguments.method,
           base::join(names));
}

}  // namespace trl::train
