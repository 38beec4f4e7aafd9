#include "serve/http/boost.h"

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
