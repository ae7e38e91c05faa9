static void fill_u32_on_host(uint32_t* dst, uint32_t n, uint32_t value) {
  for (uint32_t i = 0; i < n; i++) dst[i] = value + i;
}
