// A kernel's blocks one after the other, the threads of a block as fibers: each runs until it must wait for others.
#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>

#include "card.h"
#include "memory.h"
#include "settings.h"

namespace emulator {

Here here;

namespace {

constexpr unsigned most_threads = 1024;
constexpr std::size_t stack_bytes = 64 << 10, shared_bytes = 256 << 10;

// Where some of a block's threads meet.
struct Meeting {
  unsigned mask = 0, came = 0;  // lanes of a warp; of others `came` counts
  Where where;
  const char* what = nullptr;
  Together together = nullptr;
  std::vector<Thread*> waiting;
};
struct Warp {
  unsigned alive = 0;  // lanes that have not ended
  unsigned open = 0;   // those of the meetings that somebody waits at: one for each mask
  Meeting meetings[32];
};

struct Block {
  const Launch* launch = nullptr;
  unsigned threads = 0, started = 0, alive = 0;
  unsigned waited_for_last = 0;  // threads, of the whole kernel
  Thread* now = nullptr;
  Turn scheduler;
  std::vector<std::unique_ptr<Thread>> all;  // fibers: each runs one thread after the other
  std::vector<Thread*> idle;
  std::deque<Thread*> ready;
  std::vector<unsigned> order;
  Warp warps[most_threads / 32];
  Meeting groups[most_threads / 128], barrier;
  std::vector<std::byte*> stacks;
  std::byte* shared = nullptr;  // all of it; what a launch asked for is its end
};
Block* const only_block = new Block;  // never ends: threads of the host may outlive everything else
Block& block() { return *only_block; }

std::string in_words(const uint3& i) { return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")"; }
std::string in_words(const char* what, const Where& where) {
  const char* file = std::strrchr(where.file_name(), '/');
  return std::string(what) + " of " + (file != nullptr ? file + 1 : where.file_name()) + ":" + std::to_string(where.line());
}

// A warp goes on at once, so that its stacks stay in the cache; after a barrier all do in turn.
void release(Meeting& meeting, bool at_once) {
  Block& b = block();
  for (Thread* thread : meeting.waiting) {
    thread->waits_at = nullptr;
    if (at_once) b.ready.push_front(thread);
    else b.ready.push_back(thread);
  }
  meeting.waiting.clear();
  meeting.came = 0;
}

// Who goes on next: one that waits no more, or one that has not begun. Null: there is neither.
Thread* next_thread() {
  Block& b = block();
  if (b.started < b.threads && (b.ready.empty() || chance.one_in(2))) {
    Thread* thread = b.idle.back();
    b.idle.pop_back();
    return thread;
  }
  if (b.ready.empty()) return nullptr;
  if (chance.wanted()) std::swap(b.ready.front(), b.ready[chance.below(static_cast<std::uint32_t>(b.ready.size()))]);
  Thread* thread = b.ready.front();
  b.ready.pop_front();
  return thread;
}

void give_way() {
  Block& b = block();
  Thread* me = b.now;
  Thread* to = next_thread();
  if (to != me) go_on(me->turn, to != nullptr ? (b.now = to)->turn : b.scheduler);
  b.now = me;
  here.thread = me->index;
}
void wait_at(Meeting& meeting) {
  Thread* me = block().now;
  me->waits_at = meeting.what, me->where = meeting.where;
  meeting.waiting.push_back(me);
  give_way();
}
// All are there: some runs let another go on first.
void pass_on() {
  if (!chance.one_in(3)) return;
  block().ready.push_back(block().now);
  give_way();
}

void check_meeting(Meeting& meeting, unsigned mask, const char* what, const Where& where) {
  if (meeting.came == 0) {
    meeting.mask = mask, meeting.what = what, meeting.where = where;
  } else if (meeting.mask != mask || meeting.what != what || meeting.where.line() != where.line()) {
    stop_work(cudaErrorLaunchFailure,
              "threads wait for each other at different places, " + in_words(meeting.what, meeting.where) + " and " +
                  in_words(what, where) + (meeting.mask != mask ? ", with different masks" : "") + ", " + where_we_are());
  }
}

// Lanes that are ahead may wait at another one already.
Meeting& meeting_of(Warp& warp, unsigned mask) {
  for (unsigned open = warp.open; open != 0; open &= open - 1)
    if (Meeting& meeting = warp.meetings[std::countr_zero(open)]; meeting.mask == mask) return meeting;
  return warp.meetings[std::countr_one(warp.open)];
}

void join_lanes(Meeting& meeting, unsigned warp) {
  Slot* lanes[32] = {};
  Block& b = block();
  for (Thread* thread : meeting.waiting) lanes[thread->number % 32] = &thread->slot;
  if (b.now != nullptr && b.now->number / 32 == warp && (meeting.came >> (b.now->number % 32) & 1U) != 0)
    lanes[b.now->number % 32] = &b.now->slot;
  meeting.together(lanes, meeting.came);
  b.warps[warp].open &= ~(1U << (&meeting - b.warps[warp].meetings));
  release(meeting, true);
}

unsigned alive_in_group(unsigned group) {
  unsigned n = 0;
  for (unsigned w = 4 * group; w < 4 * group + 4; ++w) n += static_cast<unsigned>(std::popcount(block().warps[w].alive));
  return n;
}

// A thread has ended: others need not wait for it.
void end_thread(Thread& thread) {
  Block& b = block();
  if (!thread.copies.empty() || !thread.products.empty())
    stop_work(cudaErrorLaunchFailure, "a thread ends before its copies or products, " + where_we_are());
  if (thread.waited_for_last) ++b.waited_for_last;
  const unsigned warp = thread.number / 32, lane = thread.number % 32;
  b.warps[warp].alive &= ~(1U << lane);
  --b.alive;
  if (b.barrier.came > 0 && b.barrier.came == b.alive) release(b.barrier, false);
  for (unsigned open = b.warps[warp].open; open != 0; open &= open - 1) {
    Meeting& meeting = b.warps[warp].meetings[std::countr_zero(open)];
    if (meeting.came == (meeting.mask & b.warps[warp].alive)) join_lanes(meeting, warp);
  }
  if (b.groups[warp / 4].came > 0)
    stop_work(cudaErrorLaunchFailure, "a thread ends that others of its four warps wait for, " + where_we_are());
}

// What a fiber does.
void run_threads() {
  Block& b = block();
  for (;;) {
    while (b.started < b.threads) {
      Thread& me = *b.now;
      me.number = b.order[b.started++];
      const dim3& n = here.threads;
      me.index = {me.number % n.x, me.number / n.x % n.y, me.number / (n.x * n.y)};
      me.waited_for_last = false;
      here.thread = me.index;
      b.launch->run();
      end_thread(*b.now);
    }
    Thread* me = b.now;
    b.idle.push_back(me);
    Thread* to = next_thread();
    go_on(me->turn, to != nullptr ? (b.now = to)->turn : b.scheduler);
  }
}

// After an error: what fibers were about is forgotten.
void begin_afresh() {
  Block& b = block();
  b.ready.clear(), b.idle.clear();
  if (b.stacks.empty()) {
    for (unsigned i = 0; i < most_threads; ++i) {
      b.stacks.push_back(guarded_pages(stack_bytes));
      b.all.push_back(std::make_unique<Thread>());
    }
    b.shared = guarded_pages(shared_bytes + shared_bytes);
    b.shared = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(b.shared) + shared_bytes - 1) / shared_bytes * shared_bytes);
    mprotect(b.shared + shared_bytes, 4096, PROT_NONE);
  }
  for (unsigned i = most_threads; i-- > 0;) {
    *b.all[i] = {};
    b.all[i]->turn = begin_on(b.stacks[i], stack_bytes - i % 32 * 256, run_threads);  // that their ends are not of one set of the cache
    b.idle.push_back(b.all[i].get());
  }
  for (Warp& warp : b.warps) {
    warp.open = 0;
    for (Meeting& meeting : warp.meetings) meeting = {};
  }
  for (Meeting& meeting : b.groups) meeting = {};
  b.barrier = {};
}

std::string who_waits() {
  const Block& b = block();
  std::string text;
  for (const auto& thread : b.all)
    if (thread->waits_at != nullptr) {
      const std::string at = in_words(thread->waits_at, thread->where);
      if (text.find(at) == std::string::npos) text += (text.empty() ? "" : "; ") + at + ", for one thread " + in_words(thread->index);
    }
  return text;
}

void run_block() {
  Block& b = block();
  b.started = 0, b.alive = b.threads;
  for (unsigned w = 0; w < (b.threads + 31) / 32; ++w) b.warps[w].alive = b.threads - 32 * w >= 32 ? ~0U : (1U << (b.threads - 32 * w)) - 1;
  for (unsigned w = (b.threads + 31) / 32; w < std::min(most_threads / 32, (b.threads + 127) / 128 * 4); ++w) b.warps[w].alive = 0;
  if (chance.wanted())
    for (unsigned i = b.threads; i > 1; --i) std::swap(b.order[i - 1], b.order[chance.below(i)]);
  std::memset(b.shared + shared_bytes - (b.launch->shared + 1023) / 1024 * 1024, 0xFF, (b.launch->shared + 1023) / 1024 * 1024);
  b.now = b.idle.back(), b.idle.pop_back();
  go_on(b.scheduler, b.now->turn);
  if (b.alive > 0) stop_work(cudaErrorLaunchFailure, "the threads of block " + in_words(here.block) + " wait for ever: " + who_waits());
  b.now = nullptr;
}

}  // namespace

void run_kernel(const Launch& launch) {
  Block& b = block();
  static bool afresh = true;
  if (afresh) begin_afresh();
  afresh = true;  // unless this comes to its end
  b.launch = &launch;
  b.threads = launch.threads.x * launch.threads.y * launch.threads.z;
  b.waited_for_last = 0;
  b.order.resize(b.threads);
  std::iota(b.order.begin(), b.order.end(), 0U);
  here.threads = launch.threads, here.blocks = launch.blocks;
  const std::uint64_t blocks = std::uint64_t{launch.blocks.x} * launch.blocks.y * launch.blocks.z;
  std::vector<std::uint32_t> order;
  if (chance.wanted()) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0U);
    for (auto i = static_cast<std::uint32_t>(blocks); i > 1; --i) std::swap(order[i - 1], order[chance.below(i)]);
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t n = order.empty() ? i : order[i];
    here.block = {static_cast<unsigned>(n % launch.blocks.x), static_cast<unsigned>(n / launch.blocks.x % launch.blocks.y),
                  static_cast<unsigned>(n / launch.blocks.x / launch.blocks.y)};
    run_block();
  }
  if (launch.early && b.waited_for_last == 0)
    stop_work(cudaErrorLaunchFailure, std::string(launch.name) + " was started early and does not wait for what is in front of it");
  b.launch = nullptr;
  afresh = false;
}

std::string where_we_are() {
  const Block& b = block();
  if (b.launch == nullptr || b.now == nullptr) return "";
  return std::string("thread ") + in_words(here.thread) + " of block " + in_words(here.block) + " of " + b.launch->name;
}

Thread& this_thread() { return *block().now; }
Slot& slot() { return block().now->slot; }

void stop(const char* what) { stop_work(cudaErrorLaunchFailure, std::string(what) + ", " + where_we_are()); }

void meet_warp(unsigned mask, Together together, const char* what, const Where& where) {
  Block& b = block();
  const unsigned number = b.now->number, lane = number % 32;
  Warp& warp = b.warps[number / 32];
  if ((mask >> lane & 1U) == 0) stop("a thread is not in its own mask");
  Meeting& meeting = meeting_of(warp, mask);
  check_meeting(meeting, mask, what, where);
  meeting.together = together;
  meeting.came |= 1U << lane;
  warp.open |= 1U << (&meeting - warp.meetings);
  if (meeting.came != (mask & warp.alive)) return wait_at(meeting);
  join_lanes(meeting, number / 32);
  pass_on();
}

void meet_block(const Where& where) {
  Block& b = block();
  check_meeting(b.barrier, ~0U, "__syncthreads", where);
  if (++b.barrier.came != b.alive) return wait_at(b.barrier);
  release(b.barrier, false);
  pass_on();
}

void meet_warpgroup(void (*together)(), const char* what, const Where& where) {
  Block& b = block();
  const unsigned group = b.now->number / 128;
  check_meeting(b.groups[group], ~0U, what, where);
  if (++b.groups[group].came != 128) {
    if (alive_in_group(group) != 128) stop("not all threads of four warps are there for their products");
    return wait_at(b.groups[group]);
  }
  together();
  release(b.groups[group], true);
  pass_on();
}

std::vector<Thread*> warpgroup() {
  const Block& b = block();
  std::vector<Thread*> threads(128, nullptr);
  const unsigned group = b.now->number / 128;
  for (Thread* thread : b.groups[group].waiting) threads[thread->number % 128] = thread;
  threads[b.now->number % 128] = b.now;
  return threads;
}

// The first byte beyond it is not there.
std::byte* shared_of_launch(std::size_t alignment) {
  const Block& b = block();
  return b.shared + shared_bytes - (b.launch->shared + alignment - 1) / alignment * alignment;
}
std::uint32_t shared_address(const void* at) {
  const std::ptrdiff_t offset = static_cast<const std::byte*>(at) - block().shared;
  if (offset < 0 || offset > static_cast<std::ptrdiff_t>(shared_bytes)) stop("an address that is not of shared memory");
  return static_cast<std::uint32_t>(offset);
}
std::byte* shared_at(std::uint32_t address, std::size_t bytes, std::size_t alignment) {
  const std::size_t first = shared_bytes - (block().launch->shared + 1023) / 1024 * 1024;
  if (address < first || address + bytes > shared_bytes) stop("shared memory is read or written out of its bounds");
  if (address % alignment != 0) stop("a misaligned address of shared memory");
  return block().shared + address;
}
void wait_for_last_grid() { block().now->waited_for_last = true; }

}  // namespace emulator
