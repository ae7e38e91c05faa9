// Checks that two buffers contain the same bytes.
static void check_equal(const char* a_name, const unsigned char* a, const char* b_name, const unsigned char* b,
                        size_t bytes) {
  size_t wrong = 0, first = 0;
  for (size_t i = bytes; i-- > 0;)
    if (a[i] != b[i]) wrong++, first = i;
  if (wrong == 0) return;
  failures++;
  std::printf("FAIL: buffer %s: differs from %s in %zu of %zu bytes, the first at offset %zu\n", a_name, b_name, wrong,
              bytes, first);
  std::fflush(stdout);
}
