/* build: exec_stack
 * build: exec_stack_x -z execstack
 *
 * Runs six bytes of code that lie on the stack: allowed exactly when the program's PT_GNU_STACK asks for it.
 */
#include "step.h"

int main(void) {
    volatile unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
    int (*call)(void) = (int (*)(void))(uintptr_t)code;
    say("calling code on the stack");
    say("it returned %d", call());
    return 0;
}
