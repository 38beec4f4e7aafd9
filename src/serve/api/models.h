// GET /v1/models and /v1/models/NAME.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void models(Context& context, const std::shared_ptr<Exchange>& exchange);
void one_model(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
