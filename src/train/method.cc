#include "train/method.h"

#include <iterator>

namespace trl::train {

// A file in methods/ defines each.
#define TRL_METHOD(bit, name, ...) std::unique_ptr<Method> make_##name(const MethodContext&);
#include "config/methods.def"

std::unique_ptr<Method> make_method(const MethodContext& context) {
  constexpr std::unique_ptr<Method> (*kMake[])(const MethodContext&) = {
#define TRL_METHOD(bit, name, ...) make_##name,
#include "config/methods.def"
  };
  return kMake[std::distance(config::methods().data(), context.arguments.method)](context);
}

}  // namespace trl::train
