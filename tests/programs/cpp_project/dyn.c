#include <stdio.h>
void dyn(void) { puts("from the shared library"); fflush(stdout); }
