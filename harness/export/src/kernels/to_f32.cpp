static void to_f32_on_host(float* dst, const uint32_t* src, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) dst[i] = float(src[i] & 15);
}
