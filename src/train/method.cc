#include "train/method.h"

#include "base/error.h"

namespace trl::train {

// A file in methods/ defines each.
#define TRL_METHOD(bit, name, ...) std::unique_ptr<Method> make_##name(const MethodContext&);
#include "config/methods.def"

std::unique_ptr<BatchLoss> Method::joint_loss(std::span<const MicroBatch>, const Joint&, const Divisors&) {
  fail(Status::internal, "the micro-batches of this method are not computed together");
}

// The row may be that of libtrl.so, which has a table of its own.
std::unique_ptr<Method> make_method(const MethodContext& context) {
  const std::string_view wanted = context.arguments.method->name;
#define TRL_METHOD(bit, name, ...) \
  if (wanted == #name) return make_##name(context);
#include "config/methods.def"
  fail(Status::internal, "no trainer is called {}", wanted);
}

}  // namespace trl::train
