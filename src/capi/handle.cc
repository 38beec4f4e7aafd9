// Checks of handles.
#include "capi/handle.h"

#include <unistd.h>

#include <iterator>

namespace trl::capi {

std::string_view tag_name(Tag tag) {
  constexpr std::string_view kNames[] = {"",
                                         "trl_error",
                                         "trl_config",
                                         "trl_runtime",
                                         "trl_dataset",
                                         "trl_record",
                                         "trl_tokenizer",
                                         "trl_model",
                                         "trl_trainer",
                                         "trl_evaluator",
                                         "trl_metrics",
                                         "trl_generator",
                                         "trl_completions",
                                         "trl_rollout"};
  const auto place = static_cast<uint32_t>(tag) - static_cast<uint32_t>(Tag::retired);
  return place < std::size(kNames) ? kNames[place] : "";
}

Head::Head(Tag tag) : tag_(tag), process_(::getpid()) {}

bool Head::inherited() const noexcept { return process_ != ::getpid(); }

void Head::check(Tag tag, std::string_view name) const {
  const Tag found = tag_.load(std::memory_order_relaxed);
  if (found != tag) {
    const std::string_view other = tag_name(found);
    if (!other.empty())
      fail(Status::invalid_argument, "{}: a {} is required, got a {}", name, tag_name(tag), other);
    fail(Status::invalid_argument, "{}: a {} is required, got something else or one already destroyed", name,
         tag_name(tag));
  }
  if (copy_ != &kThisCopy) {
    fail(Status::invalid_argument,
         "{}: the {} was made by another copy of libtrl in this process; use only one copy", name,
         tag_name(tag));
  }
  if (inherited()) {
    fail(Status::busy,
         "forked: {} belongs to the parent process; start the child with exec, or fork before the first "
         "handle",
         name);
  }
}

void fail_null(std::string_view name) { fail(Status::invalid_argument, "{} is NULL", name); }

}  // namespace trl::capi
