// Workgroups and waves that access the same memory, and waves that access the same LDS: each pattern occurs correctly,
// and without some of its synchronization. With `turned`, the last workgroup takes the role of the first one, so that
// both orders of execution are tested.
#define K extern "C" __global__ void
typedef unsigned int u32;
typedef unsigned long long u64;
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define LOAD(p) __hip_atomic_load(p, __ATOMIC_RELAXED, AGENT)
#define STORE(p, v) __hip_atomic_store(p, v, __ATOMIC_RELAXED, AGENT)
__device__ u32 me(u32 turned) { return turned ? gridDim.x - 1 - blockIdx.x : blockIdx.x; }

// Two workgroups write to the same memory.
K writes_own(u32 *o, u32 turned) { if (threadIdx.x == 0) o[me(turned)] = me(turned) + 1; }
K writes_one(u32 *o, u32 turned) { if (threadIdx.x == 0) o[0] = me(turned) + 1; }
// All workgroups write the same value.
K writes_flag(u32 *o, u32 turned) { if (threadIdx.x == 0 && me(turned) < 6) o[0] = 1; }
// Each workgroup writes one byte, next to the bytes of other workgroups.
K writes_bytes(unsigned char *o, u32 turned) { if (threadIdx.x == 0) o[me(turned)] = me(turned) + 1; }

// One workgroup reads what another one writes.
K reads_own(u32 *o, u32 turned) { u32 b = me(turned); o[8 + b] = b; o[b] = ((volatile u32 *)o)[8 + b]; }
K reads_next(u32 *o, u32 turned) { u32 b = me(turned); o[8 + b] = b; o[b] = o[8 + (b + 1) % gridDim.x]; }

// Sums in memory.
K counts(u32 *o, u32 turned) { atomicAdd(&o[me(turned) & 3], 1u); }
K counts_plainly(u32 *o, u32 turned) { if (threadIdx.x == 0) o[me(turned) & 3] += me(turned) + 1; }
// Atomics that compilers implement with a plain load and a compare-and-swap loop.
K counts_by_swapping(u32 *o, u32 turned) {
  u32 *p = &o[me(turned) & 3], old = *p, seen;
  while ((seen = atomicCAS(p, old, old + 3)) != old) old = seen;
  if (threadIdx.x == 0) atomicMax((double *)(o + 8), (double)me(turned));
}
// Plain load of a counter that other workgroups increment.
K reads_the_count(u32 *o, u32 turned) {
  if (threadIdx.x == 0) { atomicAdd(&o[0], 1u); __syncthreads(); o[1 + me(turned)] = ((u32 *)o)[0]; }
}

// The first workgroup writes data and then sets a flag that the others wait for.
#define SIGNALS(name, before, flag, seen, behind, value)                                   \
  K name(u32 *o, u32 turned) {                                                          \
    u32 b = me(turned);                                                                 \
    if (threadIdx.x != 0) return;                                                       \
    if (b == 0) { o[32] = 7; before; flag; return; }                                    \
    while (seen == 0) __builtin_amdgcn_s_sleep(1);                                      \
    behind; o[b] = value;                                                               \
  }
SIGNALS(signals, __threadfence(), STORE(o + 16, 1), LOAD(o + 16), __threadfence(), o[32])
SIGNALS(signals_by_release, , __hip_atomic_store(o + 16, 1, __ATOMIC_RELEASE, AGENT),
      __hip_atomic_load(o + 16, __ATOMIC_ACQUIRE, AGENT), , o[32])
SIGNALS(signals_by_atomics, __threadfence(), atomicAdd(o + 16, 1u), atomicAdd(o + 16, 0u), __threadfence(), o[32])
SIGNALS(signals_volatile, __threadfence(), *(volatile u32 *)(o + 16) = 1, *(volatile u32 *)(o + 16), __threadfence(), o[32])
// A load that bypasses the caches needs no fence.
SIGNALS(signals_past_caches, __threadfence(), STORE(o + 16, 1), LOAD(o + 16), , LOAD(o + 32))
SIGNALS(signals_without_release, asm volatile("" ::: "memory"), STORE(o + 16, 1), LOAD(o + 16), __threadfence(), o[32])
SIGNALS(signals_atomics_without_release, asm volatile("" ::: "memory"), atomicAdd(o + 16, 1u), LOAD(o + 16), __threadfence(), o[32])
SIGNALS(signals_without_acquire, __threadfence(), STORE(o + 16, 1), LOAD(o + 16), asm volatile("" ::: "memory"), o[32])
// Workgroups read a flag once, without waiting for it: at agent scope, or only at workgroup scope.
#define SHOWS(name, scope)                                                              \
  K name(u32 *o, u32 turned) {                                                          \
    if (threadIdx.x != 0) return;                                                       \
    if (me(turned) == 0) __hip_atomic_store(o + 16, 1, __ATOMIC_RELAXED, scope);        \
    else o[me(turned)] = __hip_atomic_load(o + 16, __ATOMIC_RELAXED, scope);            \
  }
SHOWS(shows, AGENT)
SHOWS(shows_within, __HIP_MEMORY_SCOPE_WORKGROUP)
// Workgroups read the flag once, with a plain load.
K signals_plainly(u32 *o, u32 turned) {
  u32 b = me(turned);
  if (threadIdx.x != 0) return;
  if (b == 0) { o[32] = 7; __threadfence(); o[16] = 1; return; }
  u32 flag = o[16]; __threadfence(); o[b] = o[32] + flag;
}

// The workgroup that increments the counter last adds up the values that all workgroups have written.
#define LAST(name, meet, before, behind)                                                \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ bool last;                                                               \
    u32 b = me(turned), n = gridDim.x;                                                  \
    o[64 + b * blockDim.x + threadIdx.x] = b + threadIdx.x;                             \
    before; meet;                                                                       \
    if (threadIdx.x == 0) last = atomicAdd(o, 1u) == n - 1;                             \
    __syncthreads();                                                                    \
    if (!last) return;                                                                  \
    behind;                                                                             \
    u32 sum = 0;                                                                        \
    for (u32 i = threadIdx.x; i < n * blockDim.x; i += blockDim.x) sum += o[64 + i];    \
    atomicAdd(o + 8 + threadIdx.x % 8, sum);                                            \
  }
LAST(comes_last, __syncthreads(), __threadfence(), __threadfence())
LAST(comes_last_alone, , __threadfence(), __threadfence())
LAST(comes_last_unfenced, asm volatile("" ::: "memory"), , __threadfence())
LAST(comes_last_stale, __syncthreads(), __threadfence(), )

// Barrier of the grid, and barriers that lack a part.
#define MEETS(name, enter, meet)                                                        \
  K name(u32 *o, u32 turned) {                                                          \
    u32 b = me(turned), n = gridDim.x;                                                  \
    o[64 + b * blockDim.x + threadIdx.x] = b;                                           \
    enter;                                                                              \
    if (threadIdx.x == 0) { meet; }                                                     \
    __syncthreads();                                                                    \
    o[2048 + b * blockDim.x + threadIdx.x] = o[64 + (b + 1) % n * blockDim.x + threadIdx.x]; \
  }
#define WAIT while (LOAD(o) < n) __builtin_amdgcn_s_sleep(1)
MEETS(meets_all, __syncthreads(), __threadfence(); atomicAdd(o, 1u); WAIT; __threadfence())
MEETS(meets_nobody, __syncthreads(), )
MEETS(meets_without_waiting, __syncthreads(), __threadfence(); atomicAdd(o, 1u))
MEETS(meets_waves_alone, , __threadfence(); atomicAdd(o, 1u); WAIT; __threadfence())

// Sum that is computed under a lock.
#define LOCKS(name, take, give)                                                         \
  K name(u32 *o, u32 turned) {                                                          \
    if (threadIdx.x != 0) return;                                                       \
    for (int i = 0; i < 3; i++) { take; o[32] = o[32] + me(turned) + 1; give; }         \
  }
#define TAKE while (atomicCAS(o, 0u, 1u) != 0) __builtin_amdgcn_s_sleep(1)
LOCKS(locks_it, TAKE; __threadfence(), __threadfence(); atomicExch(o, 0u))
LOCKS(locks_by_store, TAKE; __threadfence(), __hip_atomic_store(o, 0u, __ATOMIC_RELEASE, AGENT))
LOCKS(locks_nothing, , )
LOCKS(locks_unfenced, TAKE, asm volatile("" ::: "memory"); atomicExch(o, 0u))

// Waves of a workgroup that access the same memory.
#define SWAPS(name, meet)                                                               \
  K name(u32 *o, u32 turned) {                                                          \
    u32 *p = o + me(turned) * blockDim.x, i = threadIdx.x, n = blockDim.x;              \
    p[i] = i + 1; meet;                                                                 \
    u32 v = p[n - 1 - i]; __syncthreads(); o[2048 + (p - o) + i] = v;                   \
  }
SWAPS(group_swap, __syncthreads())
SWAPS(group_swap_at_once, )
K group_write_one(u32 *o, u32 turned) { o[64 + me(turned)] = threadIdx.x; }
K group_write_over(u32 *o, u32 turned) {
  u32 *p = o + me(turned) * blockDim.x, i = threadIdx.x, v = p[blockDim.x - 1 - i];
  p[i] = v + i + 1;
}
#define WORKGROUP __HIP_MEMORY_SCOPE_WORKGROUP
// The first wave sets a flag for the other waves of its workgroup.
#define FLAGS(name, flag, seen)                                                         \
  K name(u32 *o, u32 turned) {                                                          \
    u32 b = me(turned), *p = o + 64 + b * 32, i = threadIdx.x, w = i / warpSize, l = i % warpSize; \
    if (l != 0) return;                                                                 \
    if (w == 0) { p[0] = b + 7; flag; return; }                                         \
    seen;                                                                               \
    o[2048 + b * 32 + w] = p[0];                                                        \
  }
FLAGS(group_flag, __hip_atomic_store(p + 1, 1, __ATOMIC_RELEASE, WORKGROUP),
      while (!__hip_atomic_load(p + 1, __ATOMIC_ACQUIRE, WORKGROUP)) {})
FLAGS(group_flag_volatile, __threadfence_block(); *(volatile u32 *)(p + 1) = 1,
      while (!*(volatile u32 *)(p + 1)) {} __threadfence_block())
FLAGS(group_flag_count, __threadfence_block(); atomicAdd(p + 1, 1u), while (!atomicAdd(p + 1, 0u)) {} __threadfence_block())
FLAGS(group_flag_nothing, , )
// As above, with a flag in the LDS.
K waves_flag_for_memory(u32 *o, u32 turned) {
  __shared__ u32 flag;
  u32 b = me(turned), *p = o + 64 + b * 32, i = threadIdx.x, w = i / warpSize;
  if (i == 0) flag = 0;
  __syncthreads();
  if (i % warpSize != 0) return;
  if (w == 0) { p[0] = b + 7; __hip_atomic_store(&flag, 1, __ATOMIC_RELEASE, WORKGROUP); return; }
  while (!__hip_atomic_load(&flag, __ATOMIC_ACQUIRE, WORKGROUP)) {}
  o[2048 + b * 32 + w] = p[0];
}

// Waves that access the same LDS, synchronized by atomics instead of barriers.
#define WAVES u32 b = me(turned), l = threadIdx.x % warpSize, w = threadIdx.x / warpSize, n = blockDim.x / warpSize
K waves_take_turns(u32 *o, u32 turned) {
  __shared__ u32 turn, sum[64];
  WAVES;
  if (threadIdx.x < 64) sum[threadIdx.x] = 0;
  if (threadIdx.x == 0) turn = 0;
  __syncthreads();
  while (__hip_atomic_load(&turn, __ATOMIC_ACQUIRE, WORKGROUP) != w) {}
  sum[l] = sum[l] * 3 + w;
  if (l == 0) __hip_atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE, WORKGROUP);
  if (w == n - 1) o[b * 64 + l] = sum[l];
}
K waves_raise_a_flag(u32 *o, u32 turned) {
  __shared__ volatile u32 flag;
  __shared__ u32 data[64];
  WAVES;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (w == 0) {
    data[l] = l + b; __threadfence_block();
    if (l == 0) flag = 1;
  } else {
    while (flag == 0) {}
    __threadfence_block();
    if (w == 1) o[b * 64 + l] = data[l];
  }
}
#define WAVES_LOCK(name, give)                                                          \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 lock, sum;                                                           \
    WAVES;                                                                              \
    if (threadIdx.x == 0) lock = sum = 0;                                               \
    __syncthreads();                                                                    \
    if (l == 0) {                                                                       \
      while (atomicCAS(&lock, 0u, 1u) != 0) {}                                          \
      __threadfence_block(); sum = sum + w + n; __threadfence_block(); give;            \
    }                                                                                   \
    __syncthreads();                                                                    \
    if (threadIdx.x == 0) o[b] = sum;                                                   \
  }
WAVES_LOCK(waves_lock, atomicExch(&lock, 0u))
WAVES_LOCK(waves_lock_by_store, __hip_atomic_store(&lock, 0u, __ATOMIC_RELEASE, WORKGROUP))
#define LAST_WAVE(name, is_last)                                                        \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 count, part[64];                                                     \
    WAVES;                                                                              \
    if (threadIdx.x == 0) count = 0;                                                    \
    __syncthreads();                                                                    \
    if (l != 0) return;                                                                 \
    part[w] = w + b; __threadfence_block();                                             \
    u32 old = atomicAdd(&count, 1u);                                                    \
    if (!(is_last)) return;                                                             \
    __threadfence_block();                                                              \
    u32 sum = 0;                                                                        \
    for (u32 i = 0; i < n; i++) sum += part[i];                                         \
    o[b * 64 + w] = sum + old;                                                          \
  }
LAST_WAVE(waves_count, old == n - 1)
LAST_WAVE(waves_count_in_vain, old == 0)
K waves_look_first(u32 *o, u32 turned) {
  __shared__ u32 most;
  u32 b = me(turned), v = threadIdx.x * 37 % 101 + b;
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  if (v > *(volatile u32 *)&most) atomicMax(&most, v);
  __syncthreads();
  if (threadIdx.x == 0) o[b] = most;
}
K waves_sum_up(u32 *o, u32 turned) {
  __shared__ u32 sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads(); atomicAdd(&sum, threadIdx.x); __syncthreads();
  o[me(turned) * blockDim.x + threadIdx.x] = sum;
}
K waves_sum_up_early(u32 *o, u32 turned) {
  __shared__ u32 sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads(); atomicAdd(&sum, threadIdx.x);
  o[me(turned) * blockDim.x + threadIdx.x] = sum;
}
K waves_sum_up_late(u32 *o, u32 turned) {
  __shared__ u32 sum;
  if (threadIdx.x == 0) sum = 7;
  __syncthreads(); o[me(turned) * blockDim.x + threadIdx.x] = sum; atomicAdd(&sum, threadIdx.x);
  __syncthreads(); o[2048 + me(turned) * blockDim.x + threadIdx.x] = sum;
}
K waves_begin_early(u32 *o, u32 turned) {
  __shared__ u32 turn;
  WAVES;
  if (threadIdx.x == 0) turn = 0;
  while (__hip_atomic_load(&turn, __ATOMIC_ACQUIRE, WORKGROUP) != w) {}
  o[b * 64 + l] = w;
  if (l == 0) __hip_atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE, WORKGROUP);
}

// Common variants: wait loops with a body, for which compilers load once before the loop; unrolled loops; a lock that
// is tried only once.
#define ASLEEP(condition) while (!(condition)) __builtin_amdgcn_s_sleep(1)
#define SEEN(p) __hip_atomic_load(p, __ATOMIC_ACQUIRE, WORKGROUP)
#define TELL(p, v) __hip_atomic_store(p, v, __ATOMIC_RELEASE, WORKGROUP)
#define WAVES_TELL(name, tell, wait)                                                    \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 flag, relay, data;                                                   \
    WAVES;                                                                              \
    if (threadIdx.x == 0) flag = relay = 0;                                             \
    __syncthreads();                                                                    \
    if (w == 0 && l == 0) data = b + 7;                                                 \
    tell;                                                                               \
    if (l != 0 || w == 0) return;                                                       \
    wait;                                                                               \
    o[64 + b * 32 + w] = data;                                                          \
  }
#define FIRST(tell) if (w == 0 && l == 0) tell
WAVES_TELL(waves_wait_asleep, FIRST(TELL(&flag, 1)), ASLEEP(SEEN(&flag)))
WAVES_TELL(waves_sleep_alone, FIRST(TELL(&flag, 1)), __builtin_amdgcn_s_sleep(9))
WAVES_TELL(waves_look_and_wait, FIRST(TELL(&flag, 1)), if (!SEEN(&flag)) ASLEEP(SEEN(&flag)))
// Two waves set the same second flag, for which other waves wait.
WAVES_TELL(waves_relay, FIRST(TELL(&flag, 1)), ASLEEP(SEEN(&flag)); if (w < 3) TELL(&relay, 1); ASLEEP(SEEN(&relay)))
// Before the flag is set, there is a barrier without a fence.
WAVES_TELL(waves_meet_and_tell, __builtin_amdgcn_s_barrier(); FIRST(TELL(&flag, 1)), ASLEEP(SEEN(&flag)))
#define WAVES_KEEP(name, take, give)                                                    \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 lock, serving, sum;                                                  \
    WAVES;                                                                              \
    if (threadIdx.x == 0) lock = serving = sum = 0;                                     \
    __syncthreads();                                                                    \
    if (l == 0) for (u32 i = 0; i < 2; i++) { u32 mine = 0; take { sum = sum + n; give; } } \
    __syncthreads();                                                                    \
    if (threadIdx.x == 0) o[b] = sum;                                                   \
  }
#define ONCE(order) __hip_atomic_compare_exchange_strong(&lock, &mine, 1u, order, __ATOMIC_RELAXED, WORKGROUP)
WAVES_KEEP(waves_ticket, mine = atomicAdd(&lock, 1u); ASLEEP(SEEN(&serving) == mine);, TELL(&serving, mine + 1))
WAVES_KEEP(waves_exchange, ASLEEP(!__hip_atomic_exchange(&lock, 1u, __ATOMIC_ACQUIRE, WORKGROUP));, TELL(&lock, 0))
WAVES_KEEP(waves_try, if (ONCE(__ATOMIC_ACQUIRE)), TELL(&lock, 0))
WAVES_KEEP(waves_try_in_vain, ONCE(__ATOMIC_ACQUIRE);, TELL(&lock, 0))
WAVES_KEEP(waves_try_in_turns, _Pragma("nounroll") for (u32 k = 0; k < 3; k++, mine = 0) if (ONCE(__ATOMIC_ACQUIRE)), TELL(&lock, 0))
WAVES_KEEP(waves_turn_in_vain, _Pragma("nounroll") for (u32 k = 0; k < 3; k++, mine = 0) { ONCE(__ATOMIC_ACQUIRE); }, TELL(&lock, 0))
// Two critical sections in a row without a loop. In a variant, the second one does not take the lock.
#define WAVES_LOCK_TWICE(name, again)                                                   \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 lock, sum, more;                                                     \
    WAVES;                                                                              \
    if (threadIdx.x == 0) lock = sum = more = 0;                                        \
    __syncthreads();                                                                    \
    u32 *p = o + 64 + b * 64;                                                           \
    if (l == 0) {                                                                       \
      while (atomicCAS(&lock, 0u, 1u) != 0) __builtin_amdgcn_s_sleep(1);                \
      __threadfence_block(); sum = sum + w + n; p[0] += w; TELL(&lock, 0);              \
      again __builtin_amdgcn_s_sleep(1);                                                \
      __threadfence_block(); more = more + w + n; p[1] += w; TELL(&lock, 0);            \
    }                                                                                   \
    __syncthreads();                                                                    \
    if (threadIdx.x == 0) o[b] = sum + more;                                            \
  }
WAVES_LOCK_TWICE(waves_lock_twice, while (atomicCAS(&lock, 0u, 1u) != 0))
WAVES_LOCK_TWICE(waves_lock_once, )
// Accesses to memory under a lock in the LDS, in a loop of three iterations; the lock is released after the access, or
// too early.
#define WAVES_LOCK_MEMORY(name, early, late)                                            \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 lock;                                                                \
    WAVES;                                                                              \
    if (threadIdx.x == 0) lock = 0;                                                     \
    __syncthreads();                                                                    \
    if (l != 0) return;                                                                 \
    u32 *p = o + 64 + b * 64;                                                           \
    for (u32 i = 0; i < 3; i++) {                                                       \
      ASLEEP(!atomicCAS(&lock, 0u, 1u));                                                \
      FENCE(ACQUIRE); early; p[0] += 1; FENCE(RELEASE); late;                           \
    }                                                                                   \
  }
#define FENCE(order) __builtin_amdgcn_fence(__ATOMIC_##order, "workgroup")
WAVES_LOCK_MEMORY(waves_lock_memory, , TELL(&lock, 0))
WAVES_LOCK_MEMORY(waves_unlock_early, TELL(&lock, 0), )
// The first wave waits for the flags of all waves in turn, or each time for the flag of the first of them.
#define WAVES_EACH(name, which)                                                         \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 flags[16];                                                           \
    WAVES;                                                                              \
    u32 *p = o + 64 + b * 64, *data = flags + 8;                                        \
    if (threadIdx.x < 16) flags[threadIdx.x] = 0;                                       \
    __syncthreads();                                                                    \
    if (l != 0) return;                                                                 \
    data[w] = p[w] = w + b; TELL(flags + w, 1);                                         \
    if (w != 0) return;                                                                 \
    u32 sum = 0;                                                                        \
    for (u32 i = 0; i < n; i++) { ASLEEP(SEEN(flags + which)); sum += data[i] + p[i]; } \
    o[1024 + b * 64] = sum;                                                             \
  }
WAVES_EACH(waves_wait_for_each, i)
WAVES_EACH(waves_wait_for_one, 0)
K waves_ring(u32 *o, u32 turned) {
  __shared__ u32 head, tail, slots[4];
  WAVES;
  if (threadIdx.x == 0) head = tail = 0;
  __syncthreads();
  if (l != 0 || w > 1) return;
  u32 sum = 0;
  for (u32 i = 0; i < 12; i++)
    if (w == 0) { while (i - SEEN(&tail) == 4) {} slots[i & 3] = i + b; TELL(&head, i + 1); }
    else { while (SEEN(&head) == i) {} sum += slots[i & 3]; TELL(&tail, i + 1); }
  o[b * 32 + w] = sum;
}
// Accesses to the LDS that are ordered by counters in memory: one counter for all waves, or one for each wave.
#define WAVES_BY_MEMORY(name, count)                                                    \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 part[64];                                                            \
    WAVES;                                                                              \
    if (l != 0) return;                                                                 \
    part[w] = w + b;                                                                    \
    u32 old = __hip_atomic_fetch_add(o + 1024 + b * 64 + count, 1u, __ATOMIC_ACQ_REL, WORKGROUP); \
    if (old + 1 != n && w + 1 != n) return;                                             \
    u32 sum = 0;                                                                        \
    if (old + 1 == n || count) for (u32 i = 0; i < n; i++) sum += part[i];              \
    o[b * 64 + w] = sum;                                                                \
  }
WAVES_BY_MEMORY(waves_count_in_memory, 0)
WAVES_BY_MEMORY(waves_count_apart, w)
// Accesses to memory that are ordered by counters in the LDS: one counter for all waves, or one for each wave.
#define GROUP_BY_LDS(name, count)                                                       \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 counts[64];                                                          \
    WAVES;                                                                              \
    u32 *p = o + 64 + b * 64;                                                           \
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;                                      \
    __syncthreads();                                                                    \
    if (l != 0) return;                                                                 \
    p[w] = w + b;                                                                       \
    u32 old = __hip_atomic_fetch_add(counts + count, 1u, __ATOMIC_ACQ_REL, WORKGROUP);  \
    if (old + 1 != n && w + 1 != n) return;                                             \
    u32 sum = 0;                                                                        \
    if (old + 1 == n || count) for (u32 i = 0; i < n; i++) sum += p[i];                 \
    o[1024 + b * 64 + w] = sum;                                                         \
  }
GROUP_BY_LDS(group_counts_in_lds, 0)
GROUP_BY_LDS(group_counts_apart, w)
// A wave acquires data of another workgroup, and then signals the next wave with a counter in the LDS.
K waves_hand_on(u32 *o, u32 turned) {
  __shared__ u32 count;
  WAVES;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (b == 0) { if (threadIdx.x == 0) { o[8] = 5; __hip_atomic_store(o + 9, 1, __ATOMIC_RELEASE, AGENT); } return; }
  if (w == 0 && l == 0) ASLEEP(LOAD(o + 9));
  __syncthreads();
  if (w == 0 && l == 0) { __threadfence(); __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELEASE, WORKGROUP); }
  if (w == 1 && l == 0) { ASLEEP(SEEN(&count)); o[1024 + b] = o[8]; }
}
// Waves increment a counter in memory that does not order anything, and then wait for a flag in the LDS.
K waves_hear_late(u32 *o, u32 turned) {
  __shared__ u32 flag;
  WAVES;
  u32 *p = o + 64 + b * 64;
  if (threadIdx.x == warpSize) flag = 0;
  __syncthreads();
  if (l != 0) return;
  if (w == 0) { o[1024 + b * 64] = atomicAdd(p + 40, 1u); p[0] = 7; TELL(&flag, 1); return; }
  for (u32 i = 0; i < 400; i++) __builtin_amdgcn_s_sleep(1);
  u32 place = atomicAdd(p + 40, 1u);
  ASLEEP(SEEN(&flag));
  o[1024 + b * 64 + w] = p[0] + place;
}
// The first wave signals another one of its workgroup, which signals other workgroups; then signals by two counters of one instruction.
K group_passes_on(u32 *o, u32 turned) {
  u32 b = me(turned), *p = o + 64, w = threadIdx.x / warpSize;
  if (threadIdx.x % warpSize != 0) return;
  if (b == 0 && w == 0) { p[0] = 7; TELL(p + 32, 1); }
  else if (b == 0) { ASLEEP(SEEN(p + 32)); if (w == 1) __hip_atomic_store(p + 64, 1, __ATOMIC_RELEASE, AGENT); }
  else if (w == 0) { ASLEEP(__hip_atomic_load(p + 64, __ATOMIC_ACQUIRE, AGENT)); o[1024 + b] = p[0]; }
}
K group_counts_twice(u32 *o, u32 turned) {
  u32 b = me(turned), *p = o + 64, *count = o + 128, i = threadIdx.x;
  if (b == 0 && i == 0) { p[0] = 7; __hip_atomic_fetch_add(count + 1, 1, __ATOMIC_RELEASE, AGENT); }
  if (b == 1 && i < 2) __hip_atomic_fetch_add(count + i, 1, __ATOMIC_RELAXED, AGENT);
  if (b < 2 || i != 0) return;
  ASLEEP(__hip_atomic_load(count, __ATOMIC_ACQUIRE, AGENT) == 1);
  ASLEEP(__hip_atomic_load(count + 1, __ATOMIC_ACQUIRE, AGENT) == 2);
  o[1024 + b] = p[0];
}

// Loads from memory to the LDS, which the counter of loads (vmcnt) covers. The barrier has no fence and the LDS is read by inline assembly,
// because the compiler would insert waits otherwise.
#if defined(__gfx942__) || defined(__gfx950__)
#define MOVE(from, to) __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) u32 *)(from), \
                                                        (__attribute__((address_space(3))) u32 *)(to), 4, 0, 0)
#define WAIT(n) asm volatile("s_waitcnt vmcnt(" #n ")" ::: "memory")
#define MEET() asm volatile("s_barrier" ::: "memory")
#define GET(v, p) asm volatile("ds_read_b32 %0, %1\ns_waitcnt lgkmcnt(0)" : "=v"(v) \
                               : "v"((__attribute__((address_space(3))) u32 *)(p)) : "memory")
#else
#define MOVE(from, to) (to)[threadIdx.x % warpSize] = *(from)
#define WAIT(n)
#define MEET() __syncthreads()
#define GET(v, p) v = *(p)
#endif
#define LOADS(name, before, after, index)                                               \
  K name(u32 *o, u32 turned) {                                                          \
    __shared__ u32 tile[2][128];                                                        \
    u32 i = threadIdx.x, w = i / warpSize * warpSize, l = i % warpSize, v, u;           \
    MOVE(o + i, tile[0] + w);                                                           \
    before;                                                                             \
    GET(v, tile[0] + (index));                                                          \
    after;                                                                              \
    GET(u, tile[1] + (index));                                                          \
    o[1024 + me(turned) * 128 + i] = v + u;                                             \
  }
#define SECOND MOVE(o + 128 + i, tile[1] + w)
LOADS(group_loads_to_lds, WAIT(0); MEET(), SECOND; WAIT(0); MEET(), 127 - i)
// The second load is outstanding while the data of the first one is used.
LOADS(group_loads_ahead_to_lds, SECOND; WAIT(1); MEET(), WAIT(0); MEET(), 127 - i)
LOADS(group_loads_to_lds_early, SECOND; MEET(), WAIT(0); MEET(), 127 - i)
LOADS(wave_loads_to_lds, WAIT(0), SECOND; WAIT(0), w + (l ^ 1))
LOADS(wave_loads_to_lds_early, WAIT(0), SECOND, w + (l ^ 1))
