// GET /v1/models.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void models(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
