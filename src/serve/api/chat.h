// POST /v1/chat/completions.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void chat_completions(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
