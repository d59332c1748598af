/* compat/probe: checks of descriptors. */
#include "probe.h"
