static void variable_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n) {
  const uint32_t variable[4] = {1, 10, 100, 1000};
  for (uint32_t i = 0; i < n; i++) dst[i] = src[i] + variable[i & 3];
}
