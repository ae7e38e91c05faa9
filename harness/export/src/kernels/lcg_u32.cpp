static void lcg_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n, uint32_t rounds) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t x = src[i];
    for (uint32_t r = 0; r < rounds; r++) x = x * 1664525u + 1013904223u;
    dst[i] = x;
  }
}
