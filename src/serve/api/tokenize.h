// POST /tokenize and /detokenize.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void tokenize(Context& context, const std::shared_ptr<Exchange>& exchange);
void detokenize(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
