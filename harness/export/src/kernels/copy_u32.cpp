static void copy_u32_on_host(uint32_t* dst, const uint32_t* src, uint32_t n) { std::copy_n(src, n, dst); }
