// GET /metrics: Prometheus' text, with vLLM's names if they mean the same.
#pragma once
#include <memory>
#include <string>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void metrics(Context& context, const std::shared_ptr<Exchange>& exchange);
std::string metrics_text(const Context& context);

}  // namespace trl::serve
