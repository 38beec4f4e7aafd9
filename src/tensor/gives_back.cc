#include "tensor/gives_back.h"

#include "base/pages.h"
#include "tensor/counted.h"
#include "tensor/rehearsal.h"

namespace trl::tensor {

GivesBack::~GivesBack() {
  if (Rehearsal::current() != nullptr) return;
  trim();
  base::give_back_heap();
}

}  // namespace trl::tensor
