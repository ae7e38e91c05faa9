static void histogram_u32_on_host(uint32_t* bins, const uint32_t* src, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) bins[src[i] & 15]++;
}
