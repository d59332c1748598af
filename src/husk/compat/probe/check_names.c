/* compat/probe: checks of names. */
#include "probe.h"
