// Checks that two buffers do not contain the same bytes.
static void check_differ(const char* a_name, const unsigned char* a, const char* b_name, const unsigned char* b,
                         size_t bytes) {
  if (std::memcmp(a, b, bytes) != 0) return;
  failures++;
  std::printf("FAIL: buffer %s: holds the same %zu bytes as %s, and must not\n", a_name, bytes, b_name);
  std::fflush(stdout);
}
