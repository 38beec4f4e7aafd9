// Routes that describe the server and its state.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void health(Context& context,
            const std::shared_ptr<Exchange>& exchange);  // 503 while it drains or has failed
void old_health(Context& context, const std::shared_ptr<Exchange>& exchange);  // TRL's
void version(Context& context, const std::shared_ptr<Exchange>& exchange);
void server_info(Context& context, const std::shared_ptr<Exchange>& exchange);
void world_size(Context& context, const std::shared_ptr<Exchange>& exchange);
void tensor_parallel_size(Context& context, const std::shared_ptr<Exchange>& exchange);
void reset_prefix_cache(Context& context, const std::shared_ptr<Exchange>& exchange);
void old_reset_prefix_cache(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
