/* compat/probe: checks of memory. */
#include "probe.h"
