static void sum_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n) {
  dst[0] = std::accumulate(src, src + n, 0u);
}
