#include "card.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "memory.h"
#include "settings.h"

namespace emulator {
namespace {

constexpr std::size_t most_waiting = 1024;

// Where to go on when a piece of work is given up.
thread_local std::jmp_buf* way_out = nullptr;

std::string in_words(const char* what, const void* at) {
  char text[512];
  std::snprintf(text, sizeof text, "%s at %p%s%s", what, at, where_we_are().empty() ? "" : ", ", where_we_are().c_str());
  return text;
}

void on_fault(int signal, siginfo_t* info, void*) {
  const char* what = signal == SIGSEGV || signal == SIGBUS ? "an access to memory that is not there"
                                                           : "a trap (misaligned, or out of an array)";
  if (way_out != nullptr) stop_work(cudaErrorIllegalAddress, in_words(what, info->si_addr));
  if (Memory::instance().holds(info->si_addr)) std::fprintf(stderr, "emulator: the host touched the card's memory at %p\n", info->si_addr);
  std::signal(signal, SIG_DFL);  // and once more
}

}  // namespace

void catch_faults() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(signal, &action, nullptr);
    return true;
  }();
  (void)installed;
  struct OwnStack {  // the handler's: a thread's own may be used up
    alignas(16) std::byte bytes[64 << 10];
    OwnStack() {
      stack_t stack{};
      stack.ss_sp = bytes, stack.ss_size = sizeof bytes;
      sigaltstack(&stack, nullptr);
    }
    ~OwnStack() {
      stack_t stack{};
      stack.ss_flags = SS_DISABLE;
      sigaltstack(&stack, nullptr);
    }
  };
  thread_local OwnStack own;
  (void)own;
}

void stop_work(cudaError_t error, const std::string& what) {
  Card::instance().lose(error, what);
  if (way_out == nullptr) std::abort();
  std::longjmp(*way_out, 1);
}

Card& Card::instance() {
  static Card* card = new Card;
  return *card;
}

void Card::lose(cudaError_t error, const std::string& what) {
  if (error_ != cudaSuccess) return;
  error_ = error, what_ = what;
  std::fprintf(stderr, "emulator: %s\n", what.c_str());
}

cudaError_t Card::add(CUstream_st* stream, Work work) {
  if (error_ != cudaSuccess) return error_;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) return cudaErrorInvalidResourceHandle;
  if (stream->capturing) {
    stream->captured.push_back(std::move(work));
    return cudaSuccess;
  }
  stream->waiting.push_back(std::move(work));
  std::size_t some = chance.one_in(4) ? chance.below(4) : 0;
  if (stream->waiting.size() > most_waiting) some = most_waiting / 2;
  if (some > 0) run(stream, [&] { return some-- == 0; });
  return error_;
}

void Card::run(CUstream_st* stream, const std::function<bool()>& enough) {
  if (enough() || stream->waiting.empty()) return;
  catch_faults();
  Memory::instance().open();
  do run_one(stream);
  while (!stream->waiting.empty() && !enough());
  Memory::instance().close();
}

void Card::run_one(CUstream_st* stream) {
  const Work work = std::move(stream->waiting.front());
  stream->waiting.pop_front();
  if (error_ != cudaSuccess && work.name[0] != '\0') return;  // lost: only events still happen
  std::jmp_buf here;
  way_out = &here;
  if (setjmp(here) == 0) work.run();
  else std::fprintf(stderr, "emulator: in %s\n", work.name);
  way_out = nullptr;
}

void Card::run_all() {
  for (CUstream_st* stream : streams) run(stream, [] { return false; });
}

bool Card::is_needed(const void* begin, const void* end) const {
  for (const CUstream_st* stream : streams)
    for (const Work& work : stream->waiting)
      if (work.host_begin < end && begin < work.host_end) return true;
  return false;
}

cudaError_t enqueue(const char* name, std::function<void()> work, cudaStream_t stream) {
  const std::lock_guard lock(Card::instance().mutex());
  return Card::instance().add(stream, {name, std::move(work)});
}

}  // namespace emulator
