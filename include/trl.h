/* The public header of libtrl; see trl/trl.h. */
#include "trl/trl.h"
