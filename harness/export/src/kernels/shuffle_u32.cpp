static void shuffle_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n) {
  for (uint32_t first = 0; first < n; first += 32) {
    uint32_t x[32] = {}, sum[32] = {};
    for (uint32_t lane = 0; lane < 32; lane++) {
      if (first + lane < n) x[lane] = src[first + lane];
      sum[lane] = x[lane] + (lane ? sum[lane - 1] : 0);
    }
    for (uint32_t lane = 0; lane < 32 && first + lane < n; lane++)
      dst[first + lane] = sum[lane] - x[lane < 31 ? lane + 1 : 31] + 3 * x[lane ^ 5] + 7 * sum[31];
  }
}
