// Fills memory with pseudo-random words of seed and position, so that stale or misplaced bytes are detected.
static void fill_pattern(void* to, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i += 4) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + i / 4 + 1;  // splitmix64's finaliser
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    const uint32_t word = std::max(uint32_t(z >> 40), 1u);
    std::memcpy(static_cast<unsigned char*>(to) + i, &word, std::min<size_t>(4, bytes - i));
  }
}
