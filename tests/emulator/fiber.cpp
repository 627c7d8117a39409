#include "fiber.h"

#include <cstdint>

#if defined(__x86_64__)

// What a function has to keep: six registers and the stack. (ucontext's own way asks the system to exchange signal masks each time.)
asm(R"(
.text
.globl emulator_go_on
.type emulator_go_on, @function
emulator_go_on:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_go_on, .-emulator_go_on
)");
extern "C" void emulator_go_on(void** from, void** to);

namespace emulator {

void go_on(Turn& from, Turn& to) { emulator_go_on(&from.at, &to.at); }

Turn begin_on(std::byte* stack, std::size_t bytes, void (*run)()) {
  auto** top = reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(stack) + bytes) & ~std::uintptr_t{15});
  *--top = nullptr;  // where run would return to; a call leaves the stack 8 bytes off a multiple of 16
  *--top = reinterpret_cast<void*>(run);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  return {top};
}

}  // namespace emulator

#else

#include <ucontext.h>

namespace emulator {

void go_on(Turn& from, Turn& to) {
  if (from.at == nullptr) from.at = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.at), static_cast<ucontext_t*>(to.at));
}

Turn begin_on(std::byte* stack, std::size_t bytes, void (*run)()) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack, context->uc_stack.ss_size = bytes, context->uc_link = nullptr;
  makecontext(context, run, 0);
  return {context};
}

}  // namespace emulator

#endif
