// A sequence of trivially copyable elements that only allocates for more than N of them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>

namespace unity {

// Regular; contiguous. The first N elements are inside the object.
// Complexity: as std::vector, copies are memcpy.
template <class T, std::size_t N>
class small_vector {
  static_assert(std::is_trivially_copyable_v<T>, "small_vector moves its elements by memcpy");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using iterator = T*;
  using const_iterator = const T*;

  small_vector() noexcept = default;
  small_vector(std::initializer_list<T> items) { assign(items.begin(), items.size()); }
  explicit small_vector(std::span<const T> items) { assign(items.data(), items.size()); }
  small_vector(size_type count, T value) { resize(count, value); }
  small_vector(const small_vector& o) { assign(o.data(), o.size()); }
  small_vector(small_vector&& o) noexcept { steal(o); }
  small_vector& operator=(const small_vector& o) {
    if (this != &o) {
      size_ = 0;
      assign(o.data(), o.size());
    }
    return *this;
  }
  small_vector& operator=(small_vector&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~small_vector() { release(); }

  [[nodiscard]] T* data() noexcept { return heap_ != nullptr ? heap_ : inline_; }
  [[nodiscard]] const T* data() const noexcept { return heap_ != nullptr ? heap_ : inline_; }
  [[nodiscard]] size_type size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] iterator begin() noexcept { return data(); }
  [[nodiscard]] iterator end() noexcept { return data() + size_; }
  [[nodiscard]] const_iterator begin() const noexcept { return data(); }
  [[nodiscard]] const_iterator end() const noexcept { return data() + size_; }

  [[nodiscard]] T& operator[](size_type i) {
    UNITY_EXPECTS(i < size_, "an index below size()");
    return data()[i];
  }
  [[nodiscard]] const T& operator[](size_type i) const {
    UNITY_EXPECTS(i < size_, "an index below size()");
    return data()[i];
  }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size_ - 1]; }
  [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

  void push_back(T value) {
    if (size_ == capacity_) {
      grow(size_ + 1);
    }
    data()[size_++] = value;
  }
  void pop_back() {
    UNITY_EXPECTS(size_ > 0, "a non-empty vector");
    --size_;
  }
  void clear() noexcept { size_ = 0; }
  void resize(size_type count, T value = T{}) {
    if (count > capacity_) {
      grow(count);
    }
    for (auto i = size_; i < count; ++i) {
      data()[i] = value;
    }
    size_ = count;
  }
  iterator insert(const_iterator position, T value) {
    const auto at = static_cast<size_type>(position - data());
    push_back(value);
    std::rotate(data() + at, data() + size_ - 1, data() + size_);
    return data() + at;
  }
  iterator erase(const_iterator position) {
    const auto at = static_cast<size_type>(position - data());
    std::copy(data() + at + 1, data() + size_, data() + at);
    --size_;
    return data() + at;
  }
  template <std::input_iterator It, std::sentinel_for<It> End>
  void append(It first, End last) {
    for (; first != last; ++first) {
      push_back(static_cast<T>(*first));
    }
  }

  friend bool operator==(const small_vector& a, const small_vector& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const small_vector& a, const small_vector& b) noexcept
    requires std::three_way_comparable<T>
  {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void assign(const T* items, size_type count) {
    if (count > capacity_) {
      grow(count);
    }
    std::copy_n(items, count, data());
    size_ = count;
  }
  void grow(size_type least) {
    const auto wanted = std::max(least, capacity_ * 2);
    auto* bigger = new T[wanted];
    std::copy_n(data(), size_, bigger);
    release();
    heap_ = bigger;
    capacity_ = wanted;
  }
  void release() noexcept {
    delete[] heap_;
    heap_ = nullptr;
    capacity_ = N;
  }
  void steal(small_vector& o) noexcept {
    std::copy_n(o.inline_, N, inline_);
    heap_ = o.heap_;
    size_ = o.size_;
    capacity_ = o.capacity_;
    o.heap_ = nullptr;
    o.size_ = 0;
    o.capacity_ = N;
  }

  T* heap_ = nullptr;
  size_type size_ = 0;
  size_type capacity_ = N;
  T inline_[N]{};
};

}  // namespace unity

// Not one of the ranges of <fmt/ranges.h>, whose formatter would be as good a match as the one below.
FMT_BEGIN_NAMESPACE
template <typename T, typename Char>
struct is_range;
template <class T, std::size_t N, class Char>
struct is_range<unity::small_vector<T, N>, Char> : std::false_type {};
FMT_END_NAMESPACE

// "[2,3]": shapes, degrees, devices.
template <class T, std::size_t N>
struct fmt::formatter<unity::small_vector<T, N>> : unity::plain_formatter {
  template <class Context>
  auto format(const unity::small_vector<T, N>& v, Context& context) const -> decltype(context.out()) {
    std::string text = "[";
    for (const auto& x : v) {
      text += fmt::format("{}{}", text.size() == 1 ? "" : ",", x);
    }
    return put(context, text += ']');
  }
};
