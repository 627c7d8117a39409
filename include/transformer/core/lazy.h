#pragma once
// A value that is made when it is first asked for. A model that several threads use keeps its tables in such: one of them makes the
// value, the others wait for it.

#include <mutex>
#include <optional>

namespace transformer {

template <class T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) {}  // a copy makes its own
  Lazy& operator=(const Lazy&) { return *this; }

  // The value, made anew when there is none that fits(value). T is cheap to copy, as tensors are.
  template <class Fits, class Make>
  T get(Fits&& fits, Make&& make) const {
    const std::lock_guard lock(mutex_);
    if (!value_ || !fits(*value_)) value_ = make();
    return *value_;
  }
  template <class Make>
  T get(Make&& make) const {
    return get([](const T&) { return true; }, make);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::optional<T> value_;
};

}  // namespace transformer
