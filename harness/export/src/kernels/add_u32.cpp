static void add_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n, uint32_t k) {
  for (uint32_t i = 0; i < n; i++) dst[i] = src[i] + k;
}
