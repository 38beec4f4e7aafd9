// POST /generate/ and /chat/ of TRL's own protocol (TRL 1.10 and before).
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void trl_generate(Context& context, const std::shared_ptr<Exchange>& exchange);
void trl_chat(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
