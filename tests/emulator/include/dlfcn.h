#pragma once
// The backend opens cuBLASLt by its name: here it finds the emulator's functions.
#include_next <dlfcn.h>

namespace emulator {
void* open_library(const char* name);
void* function_of(void* library, const char* name);
}  // namespace emulator
#define dlopen(name, mode) ::emulator::open_library(name)
#define dlsym(library, name) ::emulator::function_of(library, name)
