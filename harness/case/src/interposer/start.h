#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// The function to which the call is passed on, or a null pointer if the call returns `status`.
struct rocrepro_next {
  void *function;
  long status;
};

static unsigned long rocrepro_mix(unsigned long value) {
  value += 0x9e3779b97f4a7c15ul;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ul;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebul;
  return value ^ (value >> 31);
}

// Returns true if a fault takes effect at this call. Each decision is drawn from `key`. Without `per_call` all decisions
// are the same.
static bool rocrepro_takes(unsigned long &made, unsigned long only, unsigned long key, bool per_call,
                           unsigned long limit) {
  unsigned long now = __atomic_fetch_add(&made, 1, __ATOMIC_SEQ_CST);
  if (only && now + 1 != only) return false;
  return (rocrepro_mix(key ^ (per_call ? now : 0)) >> 11) < limit;
}

static void rocrepro_sleep(long ms) {
  timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) == -1 && errno == EINTR) {
  }
}
