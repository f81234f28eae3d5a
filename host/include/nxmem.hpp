// nxmem.hpp: nxmem.h for C++17: owners that give back what they hold, results that carry a value or an error, and a std::pmr::memory_resource.
//
// Attackers: as nxmem.h: the plugin. A caller that misuses an owner is stopped by the library's own checks of handles.
// Promise: no exception is thrown but by memory_resource::do_allocate, where the standard demands one (and std::abort() without exceptions); nothing is owned
// twice; what cannot be given back is never silently forgotten: an owner's end that fails is told to the function set with on_failed_end().
//
// Header only, over the C functions alone: a program that names policy links libnxmem_policy as well. Names are those of nxmem.h without their prefix, in the namespace nxmem.
#ifndef NXMEM_HPP
#define NXMEM_HPP

#include "nxmem.h"
#include "nxmem_policy.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

namespace nxmem {

// Why a call failed, as nxmem_error says it.
struct failure {
  nxmem_error detail{};

  nxmem_result code() const noexcept { return detail.result; }
  const char *message() const noexcept { return detail.message; }
};

// A value or an error, as std::expected of C++23. Asking for the one that is not there ends the program: it is a fault of the caller's.
template <typename T>
class [[nodiscard]] result {
 public:
  result(T value) noexcept : value_(std::move(value)) {}
  result(failure why) noexcept : failure_(why) {}

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  T &value() & noexcept { return value_ ? *value_ : (std::abort(), *value_); }
  const T &value() const & noexcept { return value_ ? *value_ : (std::abort(), *value_); }
  T &&value() && noexcept { return std::move(value()); }
  const T &&value() const && noexcept { return std::move(value()); }
  T &operator*() & noexcept { return value(); }
  const T &operator*() const & noexcept { return value(); }
  T &&operator*() && noexcept { return std::move(value()); }
  const T &&operator*() const && noexcept { return std::move(value()); }
  T *operator->() noexcept { return &value(); }
  const T *operator->() const noexcept { return &value(); }

  // The value, or else this one.
  template <typename U>
  T value_or(U &&other) const & {
    return value_ ? *value_ : static_cast<T>(std::forward<U>(other));
  }
  template <typename U>
  T value_or(U &&other) && {
    return value_ ? std::move(*value_) : static_cast<T>(std::forward<U>(other));
  }

  const failure &error() const & noexcept {
    if (value_) std::abort();
    return failure_;
  }
  // Of a result that goes: a copy, which may be kept.
  failure error() && noexcept { return std::as_const(*this).error(); }

 private:
  std::optional<T> value_;
  failure failure_{};
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() noexcept = default;
  result(failure why) noexcept : failed_(true), failure_(why) {}

  bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return !failed_; }
  void value() const noexcept {
    if (failed_) std::abort();
  }
  void operator*() const noexcept { value(); }

  const failure &error() const & noexcept {
    if (!failed_) std::abort();
    return failure_;
  }
  failure error() && noexcept { return std::as_const(*this).error(); }

 private:
  bool failed_ = false;
  failure failure_{};
};

// Told what an owner's end could not give back: a destructor has nobody to answer to. Any thread; nullptr: nobody is told, the host's counts still say it.
using failed_end = void (*)(const char *what, const failure &why);

namespace detail {
inline std::atomic<failed_end> told{nullptr};

inline void tell(const char *what, const failure &why) noexcept {
  if (const failed_end hear = told.load()) hear(what, why);
}

inline result<void> outcome(nxmem_result code, const failure &why) noexcept {
  return code == NXMEM_OK ? result<void>() : result<void>(why);
}

inline failure failed(nxmem_result code, const char *message) noexcept {
  failure why;
  why.detail.result = code;
  std::strncpy(why.detail.message, message, sizeof why.detail.message - 1);
  return why;
}

// A handle that is owned: moved, never copied; {0} owns nothing.
template <typename Handle>
class handle {
 public:
  handle() noexcept = default;
  explicit handle(Handle raw) noexcept : raw_(raw) {}
  handle(handle &&other) noexcept : raw_(other.release()) {}
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;

  Handle get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_.id != 0; }
  // Gives up owning, not the object.
  Handle release() noexcept { return std::exchange(raw_, Handle{}); }

 protected:
  ~handle() = default;
  void swap(handle &other) noexcept { std::swap(raw_, other.raw_); }

 private:
  Handle raw_{};
};
}  // namespace detail

inline void on_failed_end(failed_end hear) noexcept { detail::told.store(hear); }

// ---- Owners -----------------------------------------------------------------------------------------------------------
// Each has close(), which answers, and a destructor, which tells. close() that fails leaves the owner as it was, to be tried again. Owners are ended in
// the reverse of the order they were made in, as C++ does by itself.

// A live allocation of an allocator, which must outlive it.
class allocation : public detail::handle<nxmem_allocator> {
 public:
  allocation() noexcept = default;
  allocation(nxmem_allocator owner, nxmem_allocation block, std::size_t bytes) noexcept
      : handle(owner), block_(block), bytes_(bytes) {}
  allocation(allocation &&) noexcept = default;
  allocation &operator=(allocation &&other) noexcept {
    allocation old(std::move(other));
    swap(old);
    std::swap(block_, old.block_);
    std::swap(bytes_, old.bytes_);
    return *this;
  }
  ~allocation() {
    if (result<void> ended = close(); !ended) detail::tell("allocation", ended.error());
  }

  void *data() const noexcept { return *this ? block_.ptr : nullptr; }
  std::size_t size() const noexcept { return *this ? bytes_ : 0; }
  nxmem_allocation raw() const noexcept { return block_; }

  // Gone for good as soon as the library says so, also into quarantine; live as before where the plugin refused.
  result<void> close() noexcept {
    if (!*this) return {};
    failure why;
    const nxmem_result code = nxmem_release(get(), block_, nullptr, &why.detail);
    if (code == NXMEM_OK || code == NXMEM_ERR_QUARANTINED) (void)release();
    return detail::outcome(code, why);
  }

 private:
  nxmem_allocation block_{};
  std::size_t bytes_ = 0;
};

class allocator : public detail::handle<nxmem_allocator> {
 public:
  using handle::handle;
  allocator(allocator &&) noexcept = default;
  allocator &operator=(allocator &&other) noexcept {
    allocator old(std::move(other));
    swap(old);
    return *this;
  }
  ~allocator() {
    if (result<void> ended = close(); !ended) detail::tell("allocator", ended.error());
  }

  result<allocation> allocate(std::size_t bytes, std::size_t align = alignof(std::max_align_t)) noexcept {
    failure why;
    nxmem_allocation block;
    if (nxmem_allocate(get(), bytes, align, nullptr, &block, &why.detail) != NXMEM_OK) return why;
    return allocation(get(), block, bytes);
  }

  result<nxmem_allocator_info> info() const noexcept {
    failure why;
    nxmem_allocator_info out;
    if (nxmem_allocator_get_info(get(), &out, &why.detail) != NXMEM_OK) return why;
    return out;
  }

  // flags: NXMEM_CLOSE_RELEASE_LIVE, or none.
  result<void> close(std::uint32_t flags = 0) noexcept {
    if (!*this) return {};
    failure why;
    const nxmem_result code = nxmem_allocator_close(get(), flags, &why.detail);
    if (code == NXMEM_OK) (void)release();
    return detail::outcome(code, why);
  }
};

class plugin : public detail::handle<nxmem_plugin> {
 public:
  using handle::handle;
  plugin(plugin &&) noexcept = default;
  plugin &operator=(plugin &&other) noexcept {
    plugin old(std::move(other));
    swap(old);
    return *this;
  }
  ~plugin() {
    if (result<nxmem_unload_info> ended = unload(); !ended) detail::tell("plugin", ended.error());
  }

  result<nxmem_plugin_info> info() const noexcept {
    failure why;
    nxmem_plugin_info out;
    if (nxmem_plugin_get_info(get(), &out, &why.detail) != NXMEM_OK) return why;
    return out;
  }

  result<nxmem_mechanism_info> mechanism(std::uint32_t index) const noexcept {
    failure why;
    nxmem_mechanism_info out;
    if (nxmem_plugin_mechanism(get(), index, &out, &why.detail) != NXMEM_OK) return why;
    return out;
  }

  result<allocator> open(const nxmem_open_options &options) noexcept {
    failure why;
    nxmem_allocator out;
    if (nxmem_allocator_open(get(), &options, &out, &why.detail) != NXMEM_OK) return why;
    return allocator(out);
  }

  result<allocator> open(const char *mechanism) noexcept {
    nxmem_open_options options{};
    options.mechanism = mechanism;
    return open(options);
  }

  // Both sides asked; refused where either holds something, and then what it is stands in *refused.
  result<nxmem_unload_info> unload(nxmem_unload_info *refused = nullptr) noexcept {
    nxmem_unload_info out{};
    if (!*this) return out;
    failure why;
    const nxmem_result code = nxmem_plugin_try_unload(get(), &out, &why.detail);
    if (code == NXMEM_OK) {
      (void)release();
      return out;
    }
    if (refused != nullptr) *refused = out;
    return why;
  }
};

class host : public detail::handle<nxmem_host> {
 public:
  using handle::handle;
  host(host &&) noexcept = default;
  host &operator=(host &&other) noexcept {
    host old(std::move(other));
    swap(old);
    return *this;
  }
  ~host() {
    if (result<void> ended = close(); !ended) detail::tell("host", ended.error());
  }

  static result<host> create(const nxmem_host_options *options = nullptr) noexcept {
    failure why;
    nxmem_host out;
    if (nxmem_host_create(options, &out, &why.detail) != NXMEM_OK) return why;
    return host(out);
  }

  // path: absolute.
  result<plugin> open(const char *path) noexcept {
    failure why;
    nxmem_plugin out;
    if (nxmem_plugin_open(get(), path, &out, &why.detail) != NXMEM_OK) return why;
    return plugin(out);
  }

  result<nxmem_host_counts> counts() const noexcept {
    failure why;
    nxmem_host_counts out;
    if (nxmem_host_count(get(), &out, &why.detail) != NXMEM_OK) return why;
    return out;
  }

  result<void> close() noexcept {
    if (!*this) return {};
    failure why;
    const nxmem_result code = nxmem_host_destroy(get(), &why.detail);
    if (code == NXMEM_OK) (void)release();
    return detail::outcome(code, why);
  }
};

// ---- Policies (libnxmem_policy) ---------------------------------------------------------------------------------------

namespace detail {
struct free_policy {
  void operator()(nxmem_policy *held) const noexcept { nxmem_policy_free(held); }
};
struct free_report {
  void operator()(nxmem_policy_report *held) const noexcept { nxmem_policy_report_free(held); }
};
}  // namespace detail

// What a policy opened: the plugin, and what was verified of it. The report outlives the plugin where it is moved out.
struct opened_plugin {
  plugin module;
  std::unique_ptr<nxmem_policy_report, detail::free_report> report;
};

// What may be loaded. Plugins that it opened do not need it any more.
class policy {
 public:
  // path: absolute; nullptr: where the library looks by itself.
  static result<policy> load(const char *path = nullptr) noexcept {
    failure why;
    nxmem_policy *out = nullptr;
    if (nxmem_policy_load(path, &out, &why.detail) != NXMEM_OK) return why;
    return policy(out);
  }

  static result<policy> parse(std::string_view text) noexcept {
    failure why;
    nxmem_policy *out = nullptr;
    if (nxmem_policy_parse(text.data(), text.size(), &out, &why.detail) != NXMEM_OK) return why;
    return policy(out);
  }

  // path: absolute, as the policy writes it.
  result<opened_plugin> open(const host &into, const char *path) const noexcept {
    failure why;
    nxmem_plugin out;
    nxmem_policy_report *report = nullptr;
    if (nxmem_policy_open(get(), into.get(), path, &out, &report, &why.detail) != NXMEM_OK) return why;
    return opened_plugin{plugin(out), decltype(opened_plugin::report)(report)};
  }

  const nxmem_policy *get() const noexcept { return held_.get(); }

 private:
  explicit policy(nxmem_policy *held) noexcept : held_(held) {}
  std::unique_ptr<nxmem_policy, detail::free_policy> held_;
};

// ---- std::pmr ---------------------------------------------------------------------------------------------------------

// Memory of an open allocator for the standard's containers. They write to it, so it is had over memory of tier host alone, and that is looked at where it is
// made: over() is the only way to one. The allocator stays the caller's and must outlive it; so must the resource what it allocated. Any thread. What the plugin
// refuses is std::bad_alloc; what it keeps of a release is told as any failed end is.
class memory_resource : public std::pmr::memory_resource {
 public:
  static result<std::unique_ptr<memory_resource>> over(const allocator &from) noexcept {
    const result<nxmem_allocator_info> info = from.info();
    if (!info) return info.error();
    if (info->device.tier != NXMEM_TIER_HOST) return needs_host(info->device.tier);
    std::unique_ptr<memory_resource> made(new (std::nothrow) memory_resource(from.get()));
    if (made == nullptr) return detail::failed(NXMEM_ERR_OUT_OF_MEMORY, "no memory for a memory_resource");
    return made;
  }
  static result<std::unique_ptr<memory_resource>> over(const allocator &&) = delete;

  memory_resource(const memory_resource &) = delete;
  memory_resource &operator=(const memory_resource &) = delete;

 private:
  explicit memory_resource(nxmem_allocator from) noexcept : from_(from) {}

  static failure needs_host(std::uint32_t tier) noexcept {
    failure why = detail::failed(NXMEM_ERR_INVALID_ARGUMENT, "found memory of another tier, need one of tier host: the standard's containers write to it");
    why.detail.found = tier;
    why.detail.needed = NXMEM_TIER_HOST;
    return why;
  }

  void *do_allocate(std::size_t bytes, std::size_t align) override {
    nxmem_allocation block;
    if (nxmem_allocate(from_, bytes == 0 ? 1 : bytes, align, nullptr, &block, nullptr) != NXMEM_OK) return refuse();
    const std::lock_guard<std::mutex> lock(books_);
    return keep(block);
  }

  // The library knows allocations by identity, the standard by address.
  void do_deallocate(void *address, std::size_t bytes, std::size_t align) override {
    nxmem_allocation block{};
    {
      const std::lock_guard<std::mutex> lock(books_);
      const auto found = blocks_.find(address);
      if (found == blocks_.end()) return;
      block = found->second;
      blocks_.erase(found);
    }
    const nxmem_release_options named = {bytes == 0 ? 1 : bytes, align};
    failure why;
    if (nxmem_release(from_, block, &named, &why.detail) != NXMEM_OK) detail::tell("pmr", why);
  }

  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  void *keep(const nxmem_allocation &block) {
#if defined(__cpp_exceptions)
    try {
      blocks_.emplace(block.ptr, block);
    } catch (...) {
      (void)!nxmem_release(from_, block, nullptr, nullptr);
      throw;
    }
#else
    blocks_.emplace(block.ptr, block);
#endif
    return block.ptr;
  }

  [[noreturn]] static void *refuse() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
  }

  nxmem_allocator from_;
  std::mutex books_;
  std::map<void *, nxmem_allocation> blocks_;
};

}  // namespace nxmem

#endif  // NXMEM_HPP
