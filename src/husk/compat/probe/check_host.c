/* compat/probe: checks of host. */
#include "probe.h"
