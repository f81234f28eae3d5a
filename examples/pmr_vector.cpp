// pmr_vector.cpp: a standard container on a plugin's memory.
//
//     pmr_vector /absolute/path/libnxmem_hostvmm.so hostvmm
//
// Attackers: the plugin it is given.
// Promise: prints the sum of what the vector held, and how much of the plugin's memory it took; 1 with the first refusal otherwise.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <nxmem.hpp>
#include <numeric>
#include <vector>

template <typename T>
static T must(nxmem::result<T> answer) {
  if (answer) return std::move(answer).value();
  std::fprintf(stderr, "%s\n", answer.error().message());
  std::exit(1);
}

int main(int count, char **arguments) {
  if (count != 3) return std::fputs("usage: pmr_vector PLUGIN MECHANISM\n", stderr), 2;
  nxmem::host host = must(nxmem::host::create());
  nxmem::plugin plugin = must(host.open(arguments[1]));
  nxmem::allocator allocator = must(plugin.open(arguments[2]));
  {
    const std::unique_ptr<nxmem::memory_resource> memory = must(nxmem::memory_resource::over(allocator));
    std::pmr::vector<std::uint64_t> numbers(memory.get());
    for (std::uint64_t i = 1; i <= 100000; i++) numbers.push_back(i);
    const nxmem_allocator_info held = must(allocator.info());
    std::printf("sum %" PRIu64 ", %" PRIu64 " allocation, %s bytes mapped\n",
                std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), held.live_allocations,
                held.mapped_bytes >= 800000 ? "at least 800000" : "too few");
  }
  std::printf("afterwards %" PRIu64 " allocations\n", must(allocator.info()).live_allocations);
  return 0;
}
