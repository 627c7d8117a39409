// Processes that MPI introduces to each other. One thread makes all calls of MPI, so that any of its levels of thread support will do and
// what is exchanged goes on while the model computes.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "processes/joined.h"
#include "processes/watch.h"
#include "transformer/core/backend.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using std::chrono::microseconds;

// Does what it is asked for, one after the other.
class Worker {
 public:
  struct Job {
    std::function<void()> work;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::exception_ptr error;

    void run() {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done; });
      if (error) std::rethrow_exception(error);
    }
  };
  using JobPtr = std::shared_ptr<Job>;

  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  JobPtr begin(std::function<void()> work) {
    auto job = std::make_shared<Job>();
    job->work = std::move(work);
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(job);
    }
    changed_.notify_all();
    return job;
  }
  void call(std::function<void()> work) { begin(std::move(work))->wait(); }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const JobPtr job = jobs_.front();
      jobs_.pop_front();
      lock.unlock();
      job->run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<JobPtr> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("processes", "{}: {}", what, std::string(text, static_cast<std::size_t>(length)));
}

// Does not take a processor from those that compute: what is not there soon is looked for now and then.
void finish(std::vector<MPI_Request>& requests, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  for (int done = 0;;) {
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), what);
    if (done != 0) return;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited < microseconds(20)) std::this_thread::yield();
    else std::this_thread::sleep_for(waited < microseconds(2000) ? microseconds(20) : microseconds(200));
  }
}

struct Under final : Exchange {
  explicit Under(Worker::JobPtr begun) : job(std::move(begun)) {}
  ~Under() override {
    if (!job) return;
    try {
      job->wait();
    } catch (const std::exception&) {  // nobody wants to know
    }
  }
  void wait() override { std::exchange(job, nullptr)->wait(); }
  Worker::JobPtr job;
};

class MpiCommunicator final : public JoinedProcesses {
 public:
  MpiCommunicator(std::unique_ptr<Worker> worker, const Place& place) : JoinedProcesses(place), worker_(std::move(worker)) {
    watch_ = std::make_unique<Watch>(*this);
  }
  ~MpiCommunicator() override {
    try {
      barrier();  // others may have much to do yet, and are watched until then
      watch_->leave();
      barrier();  // nobody misses a connection any more
      watch_.reset();
      worker_->call([] { MPI_Finalize(); });
    } catch (const std::exception&) {  // there is nobody left to tell
    }
  }
  std::string name() const override { return "MPI"; }
  void end(const std::string& reason, int code) override { watch_->fail(reason, code); }

  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    if (mine != nullptr && bytes > 0) std::memcpy(static_cast<std::byte*>(all) + bytes * static_cast<std::size_t>(rank()), mine, bytes);
    worker_->call([&] {
      for_chunks(bytes, [&](std::size_t begin, int count) {
        std::vector<std::byte> some(static_cast<std::size_t>(count) * static_cast<std::size_t>(size()));
        std::vector<MPI_Request> request(1);
        check_mpi(MPI_Iallgather(static_cast<std::byte*>(all) + bytes * static_cast<std::size_t>(rank()) + begin, count, MPI_BYTE,
                                 some.data(), count, MPI_BYTE, MPI_COMM_WORLD, request.data()),
                  "all-gather");
        finish(request, "all-gather");
        for (std::size_t r = 0; r < static_cast<std::size_t>(size()); ++r)
          std::memcpy(static_cast<std::byte*>(all) + bytes * r + begin, some.data() + r * static_cast<std::size_t>(count),
                      static_cast<std::size_t>(count));
      });
    });
  }

  void broadcast(void* data, std::size_t bytes, int from) override {
    worker_->call([&] {
      for_chunks(bytes, [&](std::size_t begin, int count) {
        std::vector<MPI_Request> request(1);
        check_mpi(MPI_Ibcast(static_cast<std::byte*>(data) + begin, count, MPI_BYTE, from, MPI_COMM_WORLD, request.data()), "broadcast");
        finish(request, "broadcast");
      });
    });
  }

  // Every rank sends the others their pieces, and sums what it has received as a tree over the ranks, halves first: the order in which one
  // process sums micro-batches, see Trainer.
  ExchangePtr reduce_scatter(Backend&, const float* all, float* mine, std::int64_t each) override {
    return begin([this, all, mine, each] {
      std::vector<std::vector<float>> received(static_cast<std::size_t>(size()), std::vector<float>(static_cast<std::size_t>(each)));
      std::vector<MPI_Request> requests;
      for (int s = 1; s < size(); ++s) {
        const int to = (rank() + s) % size(), from = (rank() + size() - s) % size();
        exchange(all + each * to, to, received[static_cast<std::size_t>(from)].data(), from, each, "reduce-scatter", requests);
      }
      finish(requests, "reduce-scatter");
      std::copy_n(all + each * rank(), each, received[static_cast<std::size_t>(rank())].begin());
      sum_halves(received, 0, received.size());
      std::copy_n(received.front().begin(), each, mine);
    });
  }

  ExchangePtr all_gather(Backend&, float* all, std::int64_t each) override {
    return begin([this, all, each] {
      const int n = size();
      const auto piece = [&](int r) { return all + each * ((r % n + n) % n); };
      for (int s = 0; s + 1 < n; ++s) around(piece(rank() - s), piece(rank() - s - 1), each, "all-gather");
    });
  }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 20;  // elements of a message

  ExchangePtr begin(std::function<void()> work) { return std::make_unique<Under>(worker_->begin(std::move(work))); }

  static void exchange(const float* out, int to, float* in, int from, std::int64_t count, const char* what,
                       std::vector<MPI_Request>& requests) {
    for (std::int64_t i = 0; i < count; i += most) {
      const int some = static_cast<int>(std::min(most, count - i));
      check_mpi(MPI_Irecv(in + i, some, MPI_FLOAT, from, 0, MPI_COMM_WORLD, &requests.emplace_back()), what);
      check_mpi(MPI_Isend(out + i, some, MPI_FLOAT, to, 0, MPI_COMM_WORLD, &requests.emplace_back()), what);
    }
  }
  // To the next rank, and from the one before.
  void around(const float* out, float* in, std::int64_t count, const char* what) const {
    std::vector<MPI_Request> requests;
    exchange(out, (rank() + 1) % size(), in, (rank() + size() - 1) % size(), count, what, requests);
    finish(requests, what);
  }
  // rows[begin] ← the sum of rows begin … end
  static void sum_halves(std::vector<std::vector<float>>& rows, std::size_t begin, std::size_t end) {
    if (end - begin < 2) return;
    const std::size_t middle = (begin + end) / 2;
    sum_halves(rows, begin, middle), sum_halves(rows, middle, end);
    for (std::size_t i = 0; i < rows[begin].size(); ++i) rows[begin][i] += rows[middle][i];
  }

  template <class Call>
  static void for_chunks(std::size_t bytes, Call&& call) {
    constexpr std::size_t chunk = std::size_t{1} << 28;
    for (std::size_t begin = 0; begin < bytes; begin += chunk) call(begin, static_cast<int>(std::min(chunk, bytes - begin)));
  }

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace

std::shared_ptr<JoinedProcesses> join_by_mpi(int expected) {
  auto worker = std::make_unique<Worker>();
  Communicator::Place place;
  worker->call([&] {
    int level = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) fail("processes", "MPI does not start");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.size);
    MPI_Comm machine = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &machine), "who is on this machine");
    MPI_Comm_rank(machine, &place.local_rank);
    MPI_Comm_size(machine, &place.local_size);
    MPI_Comm_free(&machine);
  });
  if (place.size != expected)
    fail("processes",
         "{} processes were started, but MPI knows {}: this program was built for another MPI than the one that starts it (mpirun, srun "
         "--mpi=…)",
         expected, place.size);
  return std::make_shared<MpiCommunicator>(std::move(worker), place);
}

}  // namespace transformer
