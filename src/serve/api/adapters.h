// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM's.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void load_lora_adapter(Context& context, const std::shared_ptr<Exchange>& exchange);
void unload_lora_adapter(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
