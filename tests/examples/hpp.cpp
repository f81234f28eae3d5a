// hpp.cpp: nxmem.hpp from outside: owners end once and in order, errors are values, containers live on a plugin's memory.
//
// Attackers: none; the plugin is the minimal one.
// Promise: TAP, one line for each row; exit code 1 where one fails.
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <nxmem.hpp>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

static int count = 0, failed = 0, ends = 0;
static const char *path, *device_path, *pinned_path, *pinned_sha256;

static void row(bool held, const char *name) {
  std::printf("%sok %d - %s\n", held ? "" : "not ", ++count, name);
  if (!held) failed = 1;
}

static void hear(const char *what, const nxmem::failure &why) {
  std::printf("# %s: %s\n", what, why.message());
  ends++;
}

static void whole_life() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  {
    nxmem::plugin plugin = host.open(path).value();
    nxmem::allocator allocator = plugin.open("minimal").value();
    nxmem::allocation block = allocator.allocate(4096, 64).value();
    std::memset(block.data(), 1, block.size());
    row(block.size() == 4096 && reinterpret_cast<std::uintptr_t>(block.data()) % 64 == 0, "an allocation of the size and alignment");
    row(host.counts()->live_allocations == 1, "the host counts it");
    nxmem_unload_info refused{};
    row(plugin.unload(&refused).error().code() == NXMEM_ERR_BUSY && refused.host_allocations == 1, "an unload refused says why");
  }
  const nxmem_host_counts after = *host.counts();
  row(after.open_plugins == 0 && after.open_allocators == 0 && after.live_allocations == 0, "destructors gave all back, in order");
  row(host.close().has_value() && !host && ends == 0, "the host closes, and nobody is told anything");
}

static void moves() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  nxmem::plugin plugin = host.open(path).value();
  nxmem::allocator allocator = plugin.open("minimal").value();
  nxmem::allocation one = allocator.allocate(64).value();
  nxmem::allocation other = std::move(one);
  row(!one && one.data() == nullptr && other.data() != nullptr, "what was moved from owns nothing");
  other = allocator.allocate(128).value();
  row(host.counts()->live_allocations == 1 && other.size() == 128, "assigning over an owner ends what it held");
  nxmem::allocation &same = other;
  other = std::move(same);
  row(other.size() == 128 && host.counts()->live_allocations == 1, "moved onto itself it owns what it did");
  row(other.close().has_value() && other.close().has_value() && !other, "closing again does nothing");
  static_assert(!std::is_copy_constructible_v<nxmem::host> && !std::is_copy_assignable_v<nxmem::allocation>, "one owner");
  static_assert(std::is_nothrow_move_constructible_v<nxmem::allocator>, "owners go into containers");
}

static void errors() {
  nxmem::host host = nxmem::host::create().value();
  row(host.open("/nowhere").error().code() == NXMEM_ERR_CANNOT_OPEN, "an error is a value");
  nxmem::plugin plugin = host.open(path).value();
  row(plugin.open("nothing").error().code() == NXMEM_ERR_UNKNOWN_MECHANISM, "an unknown mechanism");
  nxmem::allocator allocator = plugin.open("minimal").value();
  row(allocator.allocate(0).error().code() == NXMEM_ERR_INVALID_ARGUMENT, "zero bytes");
  row(std::string(allocator.allocate(64, 3).error().message()).size() > 0, "its message is the library's");
}

static void told() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  {
    nxmem::plugin plugin = host.open(path).value();
    nxmem::allocator allocator = plugin.open("minimal").value();
    nxmem::allocation block = allocator.allocate(64).value();
    const nxmem_allocator raw = allocator.get();
    { nxmem::allocator gone(std::move(allocator)); }
    row(ends == 1, "an allocator that ends before its allocation is told of");
    row(block.close().has_value(), "the allocation is still what it was");
    allocator = nxmem::allocator(raw);
  }
  row(ends == 1 && host.counts()->open_plugins == 0, "and all of it can still be given back");
}

static void containers() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  nxmem::plugin plugin = host.open(path).value();
  nxmem::allocator allocator = plugin.open("minimal").value();
  {
    const auto first = nxmem::memory_resource::over(allocator).value(), second = nxmem::memory_resource::over(allocator).value();
    nxmem::memory_resource &memory = *first, &another = *second;
    std::pmr::vector<std::pmr::string> words(&memory);
    for (int i = 0; i < 1000; i++) words.emplace_back("a text that is too long to live inside a string " + std::to_string(i));
    row(words[999].find("999") != std::pmr::string::npos && allocator.info()->live_allocations == 1001, "a vector of strings");
    row(memory == memory && !(memory == another), "a resource is equal to itself alone");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
      threads.emplace_back([&memory] {
        for (int i = 0; i < 200; i++) std::pmr::vector<int>(100, i, &memory).push_back(i);
      });
    for (std::thread &thread : threads) thread.join();
    void *aligned = memory.allocate(1, 4096);
    row(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0, "an alignment of a page");
    memory.deallocate(aligned, 1, 4096);
#if defined(__cpp_exceptions)
    bool refused = false;
    try {
      (void)memory.allocate(std::size_t{1} << 62);
    } catch (const std::bad_alloc &) {
      refused = true;
    }
    row(refused, "what the plugin refuses is bad_alloc");
#endif
  }
  row(allocator.info()->live_allocations == 0 && ends == 0, "all of it went back");
}

template <typename T, typename = void>
struct has_over : std::false_type {};
template <typename T>
struct has_over<T, std::void_t<decltype(nxmem::memory_resource::over(std::declval<T>()))>> : std::true_type {};

// The minimal plugin's memory, said to be of a device: a container would write to what no processor may touch.
static void other_tier() {
  static_assert(!std::is_constructible_v<nxmem::memory_resource, const nxmem::allocator &> && !std::is_constructible_v<nxmem::memory_resource, nxmem_allocator>,
                "over() is the only way to one");
  static_assert(!std::is_default_constructible_v<nxmem::memory_resource> && !std::is_copy_constructible_v<nxmem::memory_resource>, "nor is there another");
  static_assert(has_over<nxmem::allocator &>::value && !has_over<nxmem::allocator>::value, "not over an allocator that is gone at once");
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  nxmem::plugin plugin = host.open(device_path).value();
  nxmem::allocator allocator = plugin.open("minimal").value();
  const auto refused = nxmem::memory_resource::over(allocator);
  row(!refused && refused.error().code() == NXMEM_ERR_INVALID_ARGUMENT, "no container on a device's memory");
  if (!refused) row(refused.error().detail.found == NXMEM_TIER_DEVICE && refused.error().detail.needed == NXMEM_TIER_HOST, "it says which tier it found and needs");
  if (!refused) row(std::string(refused.error().message()).find("tier host") != std::string::npos, "and its message names it");
  row(allocator.close().has_value(), "nothing was taken of it");
  row(nxmem::memory_resource::over(allocator).error().code() == NXMEM_ERR_STALE_HANDLE && ends == 0, "nor over an allocator that is closed");
}

// What is const is read as what is not; what goes is moved from, once.
static void const_results() {
  const auto host = nxmem::host::create();
  nxmem::host other = nxmem::host::create().value();
  {
    const auto plugin = other.open(path);
    row(plugin.has_value() && plugin->info()->mechanism_count == 1, "a const result shows what its value can");
    const nxmem::plugin &same = *plugin;
    row(&same == &plugin.value() && &same == plugin.operator->(), "by each of three ways the same");
    static_assert(std::is_same_v<decltype(plugin.value()), const nxmem::plugin &> && std::is_same_v<decltype(*plugin), const nxmem::plugin &>, "const stays const");
    static_assert(std::is_same_v<decltype(std::move(plugin).value()), const nxmem::plugin &&>, "also where it goes");
  }
  row(host->counts()->open_plugins == 0 && other.counts()->open_plugins == 0, "and its owner ends as any does");
  const nxmem::result<int> none = nxmem::failure{}, seven = 7;
  row(none.value_or(3) == 3 && seven.value_or(3) == 7 && *seven == 7, "value_or of what stays");
  row(other.open("/nowhere").value_or(nxmem::plugin()).get().id == 0, "value_or of what goes: an owner of nothing");
  row(other.open(path).value_or(nxmem::plugin()).unload()->unmapped == 1, "or the owner itself");
  static_assert(std::is_same_v<decltype(other.open("").error()), nxmem::failure>, "an error of a result that goes is a copy");
  const nxmem::failure &kept = other.open("/nowhere").error();
  row(kept.code() == NXMEM_ERR_CANNOT_OPEN && kept.message()[0] != 0, "which may be kept");
  const nxmem::result<void> done = other.close();
  done.value();
  row(other.close().has_value() && done, "a result of nothing has a value too");
}

static std::string document(const char *sha256) {
  return std::string(R"({"version": 1, "plugins": [{"path": ")") + pinned_path + R"(", "sha256": ")" + sha256 +
         R"(", "capabilities": ["allocator"], "max_owned_bytes": 4096, "max_mapped_bytes": "unlimited", "isolation": "none"}]})";
}

static void policies() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  row(nxmem::policy::parse("{}").error().code() == NXMEM_ERR_INVALID_ARGUMENT, "what is no policy is an error");
  row(nxmem::policy::load("/nowhere").error().code() == NXMEM_ERR_CANNOT_OPEN, "nor is one that is not there");
  const nxmem::policy other = nxmem::policy::parse(document(std::string(64, '0').c_str())).value();
  row(other.open(host, pinned_path).error().code() == NXMEM_ERR_NOT_ALLOWED && host.counts()->open_plugins == 0, "another hash loads nothing");
  nxmem::policy policy = nxmem::policy::parse(document(pinned_sha256)).value();
  {
    nxmem::opened_plugin opened = policy.open(host, pinned_path).value();
    policy = nxmem::policy::parse(document(pinned_sha256)).value();
    row(std::string(opened.report->sha256) == pinned_sha256 && opened.report->max_owned_bytes == 4096, "its report says what was verified and granted");
    nxmem::allocator allocator = opened.module.open("minimal").value();
    row(allocator.allocate(4097).error().code() == NXMEM_ERR_OVER_LIMIT && allocator.allocate(4096).has_value(), "the grant holds without the policy that gave it");
    row(host.counts()->open_plugins == 1, "the host counts it");
  }
  row(host.counts()->open_plugins == 0 && host.close().has_value() && ends == 0, "and it goes as any plugin does");
  static_assert(!std::is_copy_constructible_v<nxmem::policy> && std::is_nothrow_move_assignable_v<nxmem::opened_plugin>, "one owner");
}

// The same plugin, granted no more than this: memory that ends.
static nxmem::plugin limited(const nxmem::host &host, std::uint64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const int fd = memfd_create("limited", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (write(fd, image.data(), image.size()) != static_cast<ssize_t>(image.size()) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    std::abort();
  nxmem_sealed_options options{};
  options.capability_flags = NXMEM_CAP_ALLOCATOR;
  options.max_owned_bytes = bytes;
  options.max_mapped_bytes = NXMEM_UNLIMITED;
  nxmem_plugin raw{};
  if (nxmem_plugin_open_sealed(host.get(), fd, &options, &raw, nullptr) != NXMEM_OK) std::abort();
  close(fd);
  return nxmem::plugin(raw);
}

static void fill(std::pmr::vector<std::size_t> &numbers) {
  for (std::size_t i = 0;; i++) numbers.push_back(i);
}

static void exhausted() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  nxmem::plugin plugin = limited(host, 65536);
  nxmem::allocator allocator = plugin.open("minimal").value();
  row(allocator.allocate(65537).error().code() == NXMEM_ERR_OVER_LIMIT, "one byte beyond the limit is an error");
  {
    const auto memory = nxmem::memory_resource::over(allocator).value();
    std::pmr::vector<std::size_t> numbers(memory.get());
#if defined(__cpp_exceptions)
    bool refused = false;
    try {
      fill(numbers);
    } catch (const std::bad_alloc &) {
      refused = true;
    }
    row(refused && numbers.size() > 1000 && numbers.back() == numbers.size() - 1, "memory that ends is bad_alloc, and what was there stays");
    row(allocator.info()->live_allocations == 1, "nothing is left of what was refused");
#else
    const pid_t child = fork();
    if (child == 0) fill(numbers);  // refused at once: a forked child has no host
    int status = 0;
    row(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "without exceptions a refusal ends the program");
    for (std::size_t i = 0; i < 2048; i++) numbers.push_back(i);
    row(numbers.back() == 2047, "within the limit nothing ends");
#endif
  }
  nxmem::allocation all = allocator.allocate(65536).value();
  row(all.size() == 65536 && ends == 0, "all of it can be had again");
}

// Of each owner: closed twice, closed with something inside, tried again.
static void closes() {
  ends = 0;
  nxmem::host host = nxmem::host::create().value();
  nxmem::plugin plugin = host.open(path).value();
  nxmem::allocator allocator = plugin.open("minimal").value();
  nxmem::allocation block = allocator.allocate(64).value();
  row(host.close().error().code() == NXMEM_ERR_BUSY && host, "a host with a plugin stays");
  row(plugin.unload().error().code() == NXMEM_ERR_BUSY && plugin, "a plugin with an allocator stays");
  row(allocator.close().error().code() == NXMEM_ERR_BUSY && allocator, "an allocator with an allocation stays");
  row(block.close().has_value() && block.close().has_value() && !block, "an allocation closes, and again");
  row(allocator.close().has_value() && allocator.close().has_value() && !allocator, "an allocator closes, and again");
  row(plugin.unload()->unmapped == 1 && plugin.unload().has_value() && !plugin, "a plugin goes, and again");
  row(host.close().has_value() && host.close().has_value() && !host, "a host closes, and again");
  row(host.open(path).error().code() == NXMEM_ERR_STALE_HANDLE && allocator.allocate(1).error().code() == NXMEM_ERR_STALE_HANDLE,
      "what was closed answers with an error");
  row(ends == 0, "nobody is told anything");
}

int main(int arguments, char **words) {
  if (arguments < 5) return 2;
  path = words[1];
  device_path = words[2];
  pinned_path = words[3];
  pinned_sha256 = words[4];
  nxmem::on_failed_end(hear);
  whole_life();
  moves();
  errors();
  told();
  const_results();
  containers();
  other_tier();
  policies();
  exhausted();
  closes();
  std::printf("1..%d\n", count);
  return failed;
}
