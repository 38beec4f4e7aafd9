#include "base/arithmetic/random.h"

#include <sstream>

#include "base/error.h"

namespace trl::base {

std::string TorchGenerator::state() const {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << engine_;
  return out.str();
}

void TorchGenerator::load_state(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  std::mt19937 engine;
  if (!(in >> engine)) fail(Status::format, "the state of a random generator is damaged");
  engine_ = engine;
}

}  // namespace trl::base
