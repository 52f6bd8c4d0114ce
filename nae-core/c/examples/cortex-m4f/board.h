/* What the example needs of QEMU's mps2-an386: a console by semihosting, and marks for what is measured. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Writes a text to the host's console. */
void print(const char *text);
void print_decimal(uint32_t number);
/* Eight digits. */
void print_hexadecimal(uint32_t number);

/* Ends the emulator with this exit status. */
_Noreturn void leave(uint32_t status);

/* Marks that tests/qemu/insn-count knows; they change nothing. */
static inline void count_from_here(void) { __asm__ volatile("mov r10, r10" ::: "memory"); }
static inline void count_to_here(void) { __asm__ volatile("mov r11, r11" ::: "memory"); }

/* Fills the free stack with a pattern, and says how many bytes were overwritten since. */
void paint_stack(void);
uint32_t used_stack(void);

#endif
