// The table of routes: which handler answers a method and a path, and what it needs.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "serve/api/error.h"
#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

using Handler = void (*)(Context& context, const std::shared_ptr<Exchange>& exchange);  // may throw

enum class BodyForm : uint8_t { json, tensors };

struct Route {
  std::string_view method, path;  // a path may end with *: any text
  Handler handler;
  Answer (*refuse)(const Refusal&) = answer_of;
  BodyForm body = BodyForm::json;
  // Gives a request what it holds from before its body is read; may throw Refusal. Must not wait.
  void (*claim)(Context&, Request& head) = nullptr;
};

std::span<const Route> routes();

// Returns the route of a request. Throws Refusal(404, 405); a trailing slash counts only where both exist.
// allow: gets the methods of the path for a 405.
const Route& find_route(std::string_view method, std::string_view path, std::string& allow);

}  // namespace trl::serve
