// The options, loop and counters that all connections of a listener share.
#pragma once
#include "serve/http/listener.h"
#include "serve/http/loop.h"

namespace trl::serve {

struct Shared {
  Shared(const ServerOptions& all, Service& answers, ListenerCounts counted)
      : options(all), service(answers), counts(counted) {}
  Loop loop;
  const ServerOptions& options;
  Service& service;
  ListenerCounts counts;
  Bell bell{loop.io()};  // a connection has closed, or an answer was given up
};

}  // namespace trl::serve
