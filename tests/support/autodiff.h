#pragma once
// A scalar that remembers how it was computed: reverse-mode differentiation in float64, one number at a time.
// References of ops are written once, generic over the scalar: with double they give values, with Var gradients.

#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

class Var {
 public:
  Var(double value = 0.0) : value_(value) {}  // NOLINT: constants mix freely with variables
  double value() const { return value_; }
  static Var variable(double value) { return make(value, -1, 0.0, -1, 0.0); }
  static void clear() { tape().clear(); }

  // d(output)/d(everything): gradient(v) is valid after this.
  static void backward(const Var& output) {
    for (Entry& e : tape()) e.grad = 0.0;
    if (output.id_ < 0) return;
    tape()[static_cast<std::size_t>(output.id_)].grad = 1.0;
    for (std::size_t i = static_cast<std::size_t>(output.id_) + 1; i-- > 0;) {
      const Entry& e = tape()[i];
      if (e.a >= 0) tape()[static_cast<std::size_t>(e.a)].grad += e.da * e.grad;
      if (e.b >= 0) tape()[static_cast<std::size_t>(e.b)].grad += e.db * e.grad;
    }
  }
  double gradient() const { return id_ < 0 ? 0.0 : tape()[static_cast<std::size_t>(id_)].grad; }

  // The result of a function of one variable, given its value and derivative.
  static Var unary(const Var& x, double value, double derivative) { return make(value, x.id_, derivative, -1, 0.0); }

  friend Var operator+(const Var& x, const Var& y) { return make(x.value_ + y.value_, x.id_, 1.0, y.id_, 1.0); }
  friend Var operator-(const Var& x, const Var& y) { return make(x.value_ - y.value_, x.id_, 1.0, y.id_, -1.0); }
  friend Var operator*(const Var& x, const Var& y) { return make(x.value_ * y.value_, x.id_, y.value_, y.id_, x.value_); }
  friend Var operator/(const Var& x, const Var& y) {
    return make(x.value_ / y.value_, x.id_, 1.0 / y.value_, y.id_, -x.value_ / (y.value_ * y.value_));
  }
  friend Var operator-(const Var& x) { return unary(x, -x.value_, -1.0); }
  Var& operator+=(const Var& y) { return *this = *this + y; }
  Var& operator-=(const Var& y) { return *this = *this - y; }
  Var& operator*=(const Var& y) { return *this = *this * y; }
  friend bool operator<(const Var& x, const Var& y) { return x.value_ < y.value_; }
  friend bool operator>(const Var& x, const Var& y) { return x.value_ > y.value_; }

 private:
  struct Entry {
    std::int64_t a, b;
    double da, db, grad;
  };
  static std::vector<Entry>& tape() {
    static std::vector<Entry> entries;
    return entries;
  }
  static Var make(double value, std::int64_t a, double da, std::int64_t b, double db) {
    Var v(value);
    if (a < 0 && b < 0 && da + db != 0.0) return v;  // made of constants only
    v.id_ = static_cast<std::int64_t>(tape().size());
    tape().push_back({a, b, da, db, 0.0});
    return v;
  }
  double value_;
  std::int64_t id_ = -1;
};

inline double value_of(double x) { return x; }
inline double value_of(const Var& x) { return x.value(); }

using std::abs, std::cos, std::erf, std::exp, std::log, std::sin, std::sqrt, std::tanh;
inline Var exp(const Var& x) {
  const double y = std::exp(x.value());
  return Var::unary(x, y, y);
}
inline Var log(const Var& x) { return Var::unary(x, std::log(x.value()), 1.0 / x.value()); }
inline Var sqrt(const Var& x) {
  const double y = std::sqrt(x.value());
  return Var::unary(x, y, 0.5 / y);
}
inline Var tanh(const Var& x) {
  const double y = std::tanh(x.value());
  return Var::unary(x, y, 1.0 - y * y);
}
inline Var sin(const Var& x) { return Var::unary(x, std::sin(x.value()), std::cos(x.value())); }
inline Var cos(const Var& x) { return Var::unary(x, std::cos(x.value()), -std::sin(x.value())); }
inline Var erf(const Var& x) { return Var::unary(x, std::erf(x.value()), 1.1283791670955126 * std::exp(-x.value() * x.value())); }
inline Var abs(const Var& x) { return x < Var(0.0) ? -x : x; }

}  // namespace reference
