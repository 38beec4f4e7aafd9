// POST /v1/completions.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void completions(Context& context, const std::shared_ptr<Exchange>& exchange);

// Reads stream and stream_options.
struct StreamOptions {
  bool stream = false, usage = false, usage_always = false;
};
class Fields;
StreamOptions read_stream_options(Fields& fields);
// Tells the log of fields that no one has read.
void note_unread(const Context& context, const Fields& fields);

}  // namespace trl::serve
