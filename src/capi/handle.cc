// Checks of handles.
#include "capi/handle.h"

#include <unistd.h>

namespace trl::capi {

std::string_view tag_name(Tag tag) {
  switch (tag) {
    case Tag::retired:
      break;
    case Tag::error:
      return "trl_error";
    case Tag::config:
      return "trl_config";
    case Tag::runtime:
      return "trl_runtime";
    case Tag::dataset:
      return "trl_dataset";
    case Tag::record:
      return "trl_record";
    case Tag::tokenizer:
      return "trl_tokenizer";
    case Tag::model:
      return "trl_model";
    case Tag::trainer:
      return "trl_trainer";
    case Tag::evaluator:
      return "trl_evaluator";
    case Tag::metrics:
      return "trl_metrics";
    case Tag::generator:
      return "trl_generator";
    case Tag::completions:
      return "trl_completions";
  }
  return {};
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
