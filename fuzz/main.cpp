// Tries inputs on what reads files. See usage() below; ./run fuzz builds this with sanitizers and calls it.
//
// The inputs run in a process of its own, so that nothing that happens there is lost: each is put where both processes see it
// before it is tried, and when the process dies, or is stopped because an input takes too long, the input is saved.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>

#include "memory.h"
#include "mutate.h"
#include "targets.h"

namespace transformer::fuzz {
namespace {

namespace fs = std::filesystem;

#ifdef TRANSFORMER_SANITIZED
constexpr double longest = 5.0;  // seconds of computing for one input; all is several times slower then
#else
constexpr double longest = 1.0;
#endif

void usage() {
  fmt::print(stderr,
             "usage: transformer_fuzz TARGET [COUNT [SEED]]   try COUNT inputs (100000), made from the seeds with this number (1)\n"
             "       transformer_fuzz all [COUNT [SEED]]      the same for each target\n"
             "       transformer_fuzz try TARGET FILE…        try these inputs, and say what each comes to\n"
             "       transformer_fuzz seeds TARGET FOLDER     write the seeds there, for libFuzzer\n"
             "targets:");
  for (const Target& t : targets()) fmt::print(stderr, " {}", t.name);
  fmt::print(stderr, "\nAn input that is a finding is saved as fuzz-TARGET-NUMBER in this folder; the program ends with 1.\n");
}

// What both processes see.
struct Shared {
  std::atomic<std::size_t> tried = 0, accepted = 0;
  std::atomic<double> began = -1.0;  // the processor time of the process when the input was begun; below 0: none is
  std::size_t size = 0;
  char input[Mutator::largest] = {};
};

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Tries one input; false, and what is wrong with it, when it is a finding.
bool try_input(const Target& target, const std::string& input, Shared& shared) {
  shared.size = input.size();
  std::memcpy(shared.input, input.data(), input.size());
  shared.began = seconds(CLOCK_PROCESS_CPUTIME_ID);
  start_counting();
  std::string wrong;
  try {
    target.run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  } catch (const std::exception& e) {
    wrong = fmt::format("an exception that is not an Error: {}", e.what());
  }
  const std::size_t most = most_bytes(), allowed = target.memory + target.memory_per_byte * input.size();
  if (wrong.empty() && most > allowed)
    wrong = fmt::format("{} bytes of memory for an input of {}: expected at most {}", most, input.size(), allowed);
  if (wrong.empty() && outcome().find("[json.exception") != std::string::npos) wrong = "a message of the JSON library: " + outcome();
  shared.began = -1.0;
  if (wrong.empty()) return true;
  fmt::print(stderr, "{}\n", wrong);
  return false;
}

// The process that tries: the seeds as they are, then what is made of them.
int try_inputs(const Target& target, std::size_t count, std::uint64_t seed, Shared& shared) {
  Mutator mutator(target.seeds(), target.format, seed);
  const std::vector<std::string> seeds = mutator.seeds();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string input = i < seeds.size() ? seeds[i] : mutator.next();
    if (!try_input(target, input, shared)) return 1;
    mutator.learn(input, outcome());
    if (outcome().empty()) ++shared.accepted;
    shared.tried = i + 1;
  }
  return 0;
}

void save_finding(const Target& target, const Shared& shared) {
  const std::string_view input(shared.input, shared.size);
  const std::string name = fmt::format("fuzz-{}-{:016x}", target.name, std::hash<std::string_view>()(input));
  std::ofstream(name, std::ios::binary) << input;
  fmt::print(stderr, "FOUND after {} inputs: {} ({} bytes). To see it again: transformer_fuzz try {} {}\n", shared.tried.load(), name,
             input.size(), target.name, name);
}

bool watch(const Target& target, std::size_t count, std::uint64_t seed) {
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fmt::print(stderr, "no memory\n"), false;
  Shared& shared = *new (at) Shared;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // not without the one that watches
    std::exit(try_inputs(target, count, seed, shared));
  }
  clockid_t clock{};
  const bool clocked = clock_getcpuclockid(child, &clock) == 0;
  int status = 0;
  for (int tick = 1; waitpid(child, &status, WNOHANG) == 0; ++tick) {
    std::this_thread::sleep_for(std::chrono::milliseconds(tick < 100 ? 2 : 50));
    const double began = shared.began;
    if (clocked && began >= 0 && seconds(clock) - began > longest) {
      fmt::print(stderr, "an input takes more than {} s\n", longest);
      kill(child, SIGKILL);
    }
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFSIGNALED(status)) fmt::print(stderr, "ended by signal {}\n", WTERMSIG(status));
  if (!fine) save_finding(target, shared);
  const auto tried = static_cast<double>(shared.tried.load());
  fmt::print("{:12} {:9} inputs, {:4.1f} % understood, {:7.1f} s, {:7.0f} inputs/s{}\n", target.name, shared.tried.load(),
             100.0 * static_cast<double>(shared.accepted.load()) / std::max(tried, 1.0), took, tried / took, fine ? "" : "  FOUND");
  std::fflush(stdout);
  munmap(at, sizeof(Shared));
  return fine;
}

int try_files(const Target& target, int count, char** files) {
  static Shared shared;
  for (int i = 0; i < count; ++i) {
    std::ifstream file(files[i], std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    if (!file || input.size() > Mutator::largest) return fmt::print(stderr, "cannot read {}\n", files[i]), 2;
    const double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (!try_input(target, input, shared)) return 1;
    fmt::print("{}: {} ({:.3f} s, {} bytes at most)\n", files[i], outcome().empty() ? "understood" : outcome(),
               seconds(CLOCK_PROCESS_CPUTIME_ID) - begin, most_bytes());
  }
  return 0;
}

int write_seeds(const Target& target, const fs::path& folder) {
  fs::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target.seeds()) std::ofstream(folder / fmt::format("seed-{}", number++), std::ios::binary) << seed;
  return 0;
}

int run(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const bool other = (verb == "try" || verb == "seeds") && argc > 3;
  const Target* target = find_target(other ? argv[2] : verb);
  if (target == nullptr && (verb != "all" || other)) return usage(), 2;
  if (verb == "try") return try_files(*target, argc - 3, argv + 3);
  if (verb == "seeds") return write_seeds(*target, argv[3]);
  std::uint64_t numbers[2] = {100'000, 1};
  for (int i = 2; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (i > 3 || std::from_chars(text.data(), text.data() + text.size(), numbers[i - 2]).ptr != text.data() + text.size())
      return usage(), 2;
  }
  for (const Target& t : targets())
    if ((target == nullptr || target == &t) && !watch(t, numbers[0], numbers[1])) return 1;
  return 0;
}

}  // namespace
}  // namespace transformer::fuzz

int main(int argc, char** argv) { return transformer::fuzz::run(argc, argv); }
