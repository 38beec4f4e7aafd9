#include "tensor/memory/gives_back.h"

#include "base/memory/pages.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::tensor {

GivesBack::~GivesBack() {
  if (Rehearsal::current() != nullptr) return;
  trim();
  base::give_back_heap();
}

}  // namespace trl::tensor
