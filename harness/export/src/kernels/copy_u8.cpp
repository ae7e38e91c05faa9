static void copy_u8_on_host(unsigned char* dst, const unsigned char* src, uint32_t n) { std::copy_n(src, n, dst); }
