// POST /sleep, POST /wake_up and GET /is_sleeping, as vLLM's.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void sleep_model(Context& context, const std::shared_ptr<Exchange>& exchange);
void wake_up_model(Context& context, const std::shared_ptr<Exchange>& exchange);
void is_sleeping(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
