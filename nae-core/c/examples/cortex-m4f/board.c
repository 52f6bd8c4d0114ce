/* From reset to main, and what board.h promises. Freestanding: no C library. */

#include "board.h"

/* By mps2-an386.ld. */
extern uint32_t data_start[], data_end[], bss_start[], bss_end[], stack_top[];
extern const uint32_t data_load[];

int main(void);

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

static uintptr_t semihosting(uintptr_t operation, const void *argument) {
  register uintptr_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

/* To standard output, which is the file ":tt" opened for writing. SYS_WRITE0 would be shorter, and writes to standard error. */
void print(const char *text) {
  static uintptr_t console;
  if (!console) {
    const uintptr_t name[3] = {(uintptr_t)":tt", 4, 3};
    console = semihosting(SYS_OPEN, name);
  }
  uintptr_t length = 0;
  while (text[length]) length++;
  const uintptr_t block[3] = {console, (uintptr_t)text, length};
  semihosting(SYS_WRITE, block);
}

void print_decimal(uint32_t number) {
  char text[11], *at = &text[10];
  *at = '\0';
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  print(at);
}

void print_hexadecimal(uint32_t number) {
  char text[9];
  for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
  text[8] = '\0';
  print(text);
}

_Noreturn void leave(uint32_t status) {
  const uint32_t block[2] = {APPLICATION_EXIT, status};
  semihosting(SYS_EXIT_EXTENDED, block);
  for (;;) {
  }
}

#define PAINT 0xC0DE5AFEu

static uint32_t *stack_pointer(void) {
  uint32_t *at;
  __asm__ volatile("mov %0, sp" : "=r"(at));
  return at;
}

/* The frame of the one who paints is left out. */
void paint_stack(void) {
  for (volatile uint32_t *at = bss_end; at < stack_pointer() - 16; at++) *at = PAINT;
}

uint32_t used_stack(void) {
  volatile uint32_t *at = bss_end;
  while (at < stack_pointer() && *at == PAINT) at++;
  return (uint32_t)((uintptr_t)stack_pointer() - (uintptr_t)at);
}

/* Reset: memory, the FPU, main. */
static _Noreturn void reset(void) {
  const uint32_t *from = data_load;
  for (uint32_t *to = data_start; to < data_end;) *to++ = *from++;
  for (uint32_t *to = bss_start; to < bss_end;) *to++ = 0;
  /* CPACR: full access to the coprocessors 10 and 11, which are the FPU. */
  *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");
  main();
  leave(0);
}

static _Noreturn void fault(void) { leave(3); }

typedef void handler(void);

/* Reset and the exceptions of the processor; no interrupt is used. */
__attribute__((section(".vectors"), used)) const struct {
  uint32_t *stack;
  handler *handlers[15];
} vectors = {stack_top, {reset, fault, fault, fault, fault, fault}};
